/* http_parts.h - what the files of the HTTP server share. */
#ifndef QR_SERVER_HTTP_PARTS_H
#define QR_SERVER_HTTP_PARTS_H
#include <event2/bufferevent.h>
#include <http_parser.h>
#include "base/buf.h"
#include "server/http.h"

enum qr_http_phase {
    QR_HTTP_IDLE,    /* no byte of a request has come */
    QR_HTTP_HEAD,    /* its fields are coming */
    QR_HTTP_BODY,    /* its body is coming */
    QR_HTTP_ANSWER,  /* the handler has it */
    QR_HTTP_LAST,    /* answered; closed when all is sent */
    QR_HTTP_LINGER,  /* all sent, refused input is thrown away so that the client gets to read the answer */
    QR_HTTP_REFUSED, /* answered before all of it came: last bytes out, then linger */
};

struct qr_http_span {
    size_t name, value; /* offsets into the head's buffer, NUL-terminated */
};

struct qr_http_conn {
    struct qr_http *http;
    struct qr_http_conn *prev, *next;
    struct bufferevent *bev;
    struct event *timer; /* the deadline of the phase */
    enum qr_http_phase phase;
    int depth; /* callbacks on the stack; it is freed when none is */
    bool dead;
    char peer[48];

    http_parser parser;
    bool in_value; /* the parser is within a field's value */
    size_t n_head; /* bytes of it so far */
    struct qr_buf url, head;
    struct qr_http_span *field; /* [limits.max_field] */
    int n_field;
    int refuse_status; /* found by a parser callback; 0: nothing */
    const char *refuse_message;

    struct qr_http_request request;
    size_t body_room;    /* bytes allocated */
    int64_t accounted;   /* bytes of the body that the handler knows of */
    bool keep_alive;     /* the client's wish, and ours */
    bool begun, chunked; /* of the answer */
    size_t unsent;       /* bytes, when the phase's deadline was set */
    bool broken;         /* a part of the answer is missing for want of memory: it is to be cut */
    bool http_1_0, is_head;

    bool half;      /* the client sends nothing more */
    int n_look;     /* looks whether it is still there, since the last byte sent to find out */
    size_t n_early; /* bytes of the answer's status line that were sent for that */
    size_t n_zero;  /* the same of zeros in front of a chunk's size */
};

#define QR_HTTP_VERSION "HTTP/1.1 " /* with which every answer begins */

struct qr_http {
    struct event_base *base;
    struct qr_http_limits limits;
    struct qr_http_handler handler;
    http_parser_settings settings;
    struct event *listener;
    int fd, reserve; /* reserve: a descriptor kept to be able to refuse when there are none left */
    int port, n_conn;
    struct qr_http_conn *first;
    struct event *pause; /* listens again after memory or descriptors ran out */
};

/* http_conn.c */
void qr_http_conn_open(struct qr_http *http, int fd, const char *peer);
void qr_http_conn_close(struct qr_http_conn *conn); /* tells the handler; frees it now or when the callback returns */
/* Callbacks stand between enter and leave: within them the connection is not freed. */
void qr_http_conn_enter(struct qr_http_conn *conn);
void qr_http_conn_leave(struct qr_http_conn *conn);
void qr_http_conn_phase(struct qr_http_conn *conn, enum qr_http_phase phase); /* with its deadline */
void qr_http_conn_answered(struct qr_http_conn *conn);
/* http_half.c: of a connection that is half closed and waits for its answer; again at each turn of its timer. */
void qr_http_half_watch(struct qr_http_conn *conn);
/* http_parse.c */
void qr_http_parse_settings(http_parser_settings *settings);
void qr_http_parse_reset(struct qr_http_conn *conn);
/* Feeds n bytes of a request; returns how many were taken, fewer once the request is whole or refused. */
size_t qr_http_parse(struct qr_http_conn *conn, const char *data, size_t n);
#endif
