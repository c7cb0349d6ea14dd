/* grammar_format.c - "format" as patterns over the whole string.
 * Sources: RFC 3339 (date, time), ISO 8601 as in RFC 3339 appendix A (duration), RFC 9562 (uuid), RFC 5321 in its common
 * part (email), RFC 2673 section 3.2 (ipv4), RFC 4291 section 2.2 (ipv6), RFC 1123 (hostname), RFC 3986 (uri, with a
 * scheme and an authority or path). */
#include <string.h>
#include "text/grammar_internal.h"

#define YEAR "(?:[0-9]{3}[1-9]|[0-9]{2}[1-9]0|[0-9][1-9]00|[1-9]000)" /* 0001 to 9999 */
/* Of a leap year: divisible by 4 and not by 100, or by 400. */
#define LEAP "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
#define DATE                                                                                                           \
    "(?:" YEAR "-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|" \
    "1[0-9]|2[0-8]))|" LEAP "-02-29)"
#define CLOCK "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,6})?"
#define ZONE  "(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
#define OCTET "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
#define IPV4  "(?:" OCTET "\\.){3}" OCTET
#define H16   "[0-9a-fA-F]{1,4}"
#define LABEL "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
#define SEG   "(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})"

const char *qr_gr_format(const char *name)
{
    static const char *const format[][2] = {
        {"date", DATE},
        {"time", CLOCK ZONE},
        {"date-time", DATE "T" CLOCK ZONE},
        {"duration",
         "P(?:[0-9]{1,9}W|(?:[0-9]{1,9}D|[0-9]{1,9}M(?:[0-9]{1,9}D)?|[0-9]{1,9}Y(?:[0-9]{1,9}M(?:[0-9]{1,9}D)?)?)"
         "(?:T(?:[0-9]{1,9}H(?:[0-9]{1,9}M(?:[0-9]{1,9}S)?)?|[0-9]{1,9}M(?:[0-9]{1,9}S)?|[0-9]{1,9}S))?|T(?:"
         "[0-9]{1,9}H(?:[0-9]{1,9}M(?:[0-9]{1,9}S)?)?|[0-9]{1,9}M(?:[0-9]{1,9}S)?|[0-9]{1,9}S))"},
        {"uuid", "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"},
        {"email", "[A-Za-z0-9_%+-]+(?:\\.[A-Za-z0-9_%+-]+)*@(?:" LABEL "\\.)+[A-Za-z]{2,63}"},
        {"ipv4", IPV4},
        {"ipv6", "(?:(?:" H16 ":){7}" H16 "|(?:" H16 ":){1,7}:|(?:" H16 ":){1,6}:" H16 "|(?:" H16 ":){1,5}(?::" H16
                 "){1,2}|(?:" H16 ":){1,4}(?::" H16 "){1,3}|(?:" H16 ":){1,3}(?::" H16 "){1,4}|(?:" H16
                 ":){1,2}(?::" H16 "){1,5}|" H16 ":(?::" H16 "){1,6}|:(?:(?::" H16 "){1,7}|:))"},
        {"hostname", "(?:" LABEL ")(?:\\." LABEL ")*"},
        {"uri", "[A-Za-z][A-Za-z0-9+.-]*:(?://(?:" LABEL ")(?:\\." LABEL ")*(?::[0-9]{1,5})?(?:/" SEG "*)*|" SEG
                "+(?:/" SEG "*)*)(?:\\?(?:" SEG "|[/?])*)?(?:#(?:" SEG "|[/?])*)?"},
    };

    for (size_t i = 0; i < sizeof format / sizeof *format; i++)
        if (strcmp(name, format[i][0]) == 0)
            return format[i][1];
    return NULL;
}
