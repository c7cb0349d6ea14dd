/* guard.c - see guard.h. */
#include "server/guard.h"
#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

/* The name in "name", "name:8000", "[::1]:8000". */
static bool split_host(const char *host, char name[256])
{
    size_t n;
    if (*host == '[') {
        host++;
        n = strcspn(host, "]");
        if (host[n] != ']')
            return false;
    } else {
        n = strcspn(host, ":");
    }
    if (n == 0 || n >= 256)
        return false;
    memcpy(name, host, n);
    name[n] = 0;
    return true;
}

static bool is_loopback(const char *name)
{
    struct in_addr v4;
    struct in6_addr v6;
    if (strcasecmp(name, "localhost") == 0)
        return true;
    if (inet_pton(AF_INET, name, &v4) == 1)
        return ntohl(v4.s_addr) >> 24 == 127;
    return inet_pton(AF_INET6, name, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

static bool is_address(const char *name)
{
    unsigned char any[16];
    return inet_pton(AF_INET, name, any) == 1 || inet_pton(AF_INET6, name, any) == 1;
}

bool qr_guard_host(const struct qr_serve_options *o, const char *host)
{
    char name[256];
    if (!host) /* HTTP/1.0; browsers always send one */
        return true;
    if (!split_host(host, name))
        return false;
    if (is_loopback(name) || strcasecmp(name, o->host) == 0)
        return true;
    for (size_t i = 0; i < o->n_allowed_host; i++)
        if (strcasecmp(name, o->allowed_host[i]) == 0 || strcmp(o->allowed_host[i], "*") == 0)
            return true;
    /* Opened to the network without a list: any name may lead here. */
    return !is_loopback(o->host) && (is_address(name) || o->n_allowed_host == 0);
}

bool qr_guard_origin_listed(const struct qr_serve_options *o, const char *origin)
{
    for (size_t i = 0; i < o->n_allowed_origin; i++)
        if (strcasecmp(origin, o->allowed_origin[i]) == 0 || strcmp(o->allowed_origin[i], "*") == 0)
            return true;
    return false;
}

bool qr_guard_origin(const struct qr_serve_options *o, const char *origin, const char *host)
{
    if (!origin || qr_guard_origin_listed(o, origin))
        return true;
    const char *authority = strstr(origin, "://");
    return authority && host && strcasecmp(authority + 3, host) == 0;
}

/* All of key is looked at whatever given is; only the length of what the client sent shows. */
static bool same_key(const char *given, size_t n_given, const char *key)
{
    size_t n_key = strlen(key);
    unsigned difference = n_given != n_key;
    for (size_t i = 0; i < n_given; i++)
        difference |= (unsigned)(unsigned char)given[i] ^ (unsigned)(unsigned char)key[n_key ? i % n_key : 0];
    return difference == 0;
}

bool qr_guard_key(const struct qr_serve_options *o, const char *authorization)
{
    const char *given = authorization ? authorization : "";
    unsigned found = 0;
    if (o->n_api_key == 0)
        return true;
    if (strncasecmp(given, "Bearer ", 7) == 0)
        given += 7;
    given += strspn(given, " ");
    for (size_t i = 0; i < o->n_api_key; i++)
        found |= same_key(given, strlen(given), o->api_key[i]);
    return found && *given;
}
