/* model.h - the tests' model: tiny-llama with random weights, with a tokenizer and a chat template. */
#ifndef TESTS_SERVER_MODEL_H
#define TESTS_SERVER_MODEL_H
#include "quire.h"

/* For a group's setup: makes a folder (end it with tmp_teardown), writes the model there and opens it. */
struct qr_model *server_model(void **state);
#endif
