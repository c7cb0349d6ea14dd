/* guard.h - who may ask: the Host and Origin fields against pages of other sites (DNS rebinding), and API keys. */
#ifndef QR_SERVER_GUARD_H
#define QR_SERVER_GUARD_H
#include "server/serve.h"

/* Is this Host field one that this server answers to? A server that only this machine can reach answers to the names of
 * this machine, so that a web page whose name suddenly means 127.0.0.1 gets nothing. bound: the address it listens on. */
bool qr_guard_host(const struct qr_serve_options *options, const char *host);
/* May a page from this origin ask? Its own page may, and the origins that the options list. */
bool qr_guard_origin(const struct qr_serve_options *options, const char *origin, const char *host);
bool qr_guard_origin_listed(const struct qr_serve_options *options, const char *origin);
/* Is "Bearer KEY" one of the keys? Takes the same time wherever the first difference is. */
bool qr_guard_key(const struct qr_serve_options *options, const char *authorization);
#endif
