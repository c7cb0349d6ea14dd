/* notify.h - tells systemd how a service is (sd_notify's protocol: one datagram to the socket that it names). */
#ifndef QR_CLI_NOTIFY_H
#define QR_CLI_NOTIFY_H
/* "READY=1", "STOPPING=1", ...; without NOTIFY_SOCKET in the environment nothing happens. */
void cli_notify(const char *state);
#endif
