"""Template snippets, one a line unless multi-line, rendered with CONTEXT by jinja2 and by quire."""

CONTEXT = {
    "messages": [
        {"role": "system", "content": "You are helpful."},
        {"role": "user", "content": "Hi there"},
        {"role": "assistant", "content": "Hello!", "n": 3},
        {"role": "user", "content": "  two words\n"},
    ],
    "name": "World",
    "empty": "",
    "uni": "Grüße, Ελλάδα 日本語 😀!",
    "text": "  The quick brown fox jumps over the lazy dog.  ",
    "lines": "one\ntwo\r\nthree\n\nfive",
    "quotes": "it's \"quoted\" \\ and\ttabbed\n",
    "n": 42,
    "zero": 0,
    "neg": -7,
    "pi": 3.14159,
    "big": 12345678901234,
    "half": 0.5,
    "yes": True,
    "no": False,
    "nothing": None,
    "nums": [3, 1, 2, 10, 7],
    "floats": [1.5, 2.25, 0.1, 1e22, 1e-7, 100.0],
    "words": ["banana", "Apple", "cherry", "apple"],
    "nested": [[1, 2], [3, [4, 5]], []],
    "d": {"b": 1, "a": 2, "C": 3},
    "deep": {"x": {"y": {"z": "found"}}, "list": [{"k": "v0"}, {"k": "v1"}]},
    "users": [
        {"name": "Ann", "age": 30, "city": "Oslo", "ok": True},
        {"name": "bob", "age": 25, "city": "rome", "ok": False},
        {"name": "Cid", "age": 35, "city": "oslo"},
        {"name": "Dee", "age": 25, "city": "Rome", "ok": True},
    ],
    "odd_keys": {"items": 1, "keys": "k", "get": "g", "update": "u", "a b": 2, "class": "c"},
    "html": "<a href='x'>\"T&C\"</a>",
    "tools": [
        {
            "type": "function",
            "function": {
                "name": "get_weather",
                "description": "Weather of a <city> & more: 'é'",
                "parameters": {
                    "type": "object",
                    "properties": {"city": {"type": "string"}, "days": {"type": "integer", "default": 1.0}},
                    "required": ["city"],
                },
            },
        }
    ],
    "tree": [{"v": 1, "c": [{"v": 2, "c": []}, {"v": 3, "c": [{"v": 4, "c": []}]}]}, {"v": 5, "c": []}],
}

# ---------------------------------------------------------------- one line each
SNIPPETS = r"""
{{ name }}
Hello {{ name }}!
{{ missing }}|
{{ nothing }} {{ yes }} {{ no }} {{ n }} {{ pi }} {{ neg }} {{ big }}
{{ 1 }} {{ 1.0 }} {{ 1e3 }} {{ 1.5e-7 }} {{ 0x1F }} {{ 0b101 }} {{ 0o17 }} {{ 1_000_000 }} {{ 1_0.2_5 }}
{{ 'a' "b" 'c' }}
{{ 'it\'s' }} {{ "a\"b" }} {{ 'tab\there' }} {{ 'nl\nx' }} {{ '\x41\u00e9\U0001F600' }} {{ '\101\7' }} {{ '\q\\' }}
{{ "\u4f60\u597d" }} {{ 'ünï' }} {{ '\
x' }}
{{ true }} {{ false }} {{ none }} {{ True }} {{ False }} {{ None }}
{{ [1, 'a', 2.5, none, true, [], {}, (), (1,), (1, 2)] }}
{{ {'a': 1, 'b': [1, 2], 3: 'x', none: 1.5, true: 2} }}
{{ {'a': 1, 'a': 2} }}
{{ (1, 2, 3) }} {{ () }} {{ 1, 2 }}
{{ [1, 2, ] }} {{ {'a': 1, } }} {{ (1, ) }}
{{ 1 + 2 }} {{ 1 - 2 }} {{ 2 * 3 }} {{ 7 / 2 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 2 ** 10 }} {{ 2 ** -1 }}
{{ 6 / 3 }} {{ 1 / 3 }} {{ 7.5 // 2 }} {{ -7.5 % 2 }} {{ 2 ** 0.5 }} {{ 1e308 * 10 }} {{ 0.1 + 0.2 }}
{{ 2 ** 3 ** 2 }} {{ -2 ** 2 }} {{ 2 + 3 * 4 ** 2 }} {{ (2 + 3) * 4 }} {{ 10 - 3 - 2 }} {{ 2 * 3 % 4 }}
{{ - 5 }} {{ +5 }} {{ --5 }} {{ -n }} {{ -pi }} {{ -true }} {{ +true }}
{{ true + 1 }} {{ true * 3 }} {{ false == 0 }} {{ true == 1.0 }}
{{ 1 / 0 }}
{{ 1 // 0 }}
{{ 1 % 0 }}
{{ 1.0 / 0 }}
{{ 0 ** -1 }}
{{ 'a' + 'b' }} {{ 'ab' * 3 }} {{ 3 * 'ab' }} {{ 'ab' * 0 }} {{ 'ab' * -1 }} {{ [1] + [2] }} {{ [1, 2] * 2 }} {{ (1,) + (2,) }}
{{ 'a' + 1 }}
{{ 1 + 'a' }}
{{ [1] + (2,) }}
{{ 'a' - 'b' }}
{{ none + 1 }}
{{ missing + 1 }}
{{ 1 + missing }}
{{ 'a' ~ 1 ~ none ~ missing ~ true ~ 1.5 ~ [1] }}
{{ 1 ~ 2 + 3 }} {{ 1 + 2 ~ 3 }} {{ 2 * 3 ~ 4 }}
{{ 1 < 2 }} {{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 1 == 1 == 1 }} {{ 1 != 2 }} {{ 2 >= 2 }} {{ 3 <= 2 }} {{ 'a' < 'b' }} {{ 'a' < 'B' }}
{{ [1, 2] < [1, 3] }} {{ [1] < [1, 0] }} {{ (1, 'a') <= (1, 'a') }} {{ [1, 2] == [1, 2] }} {{ [1] == (1,) }} {{ {'a': 1} == {'a': 1.0} }}
{{ 1 < 'a' }}
{{ none < 1 }}
{{ missing < 1 }}
{{ {} < {} }}
{{ 1 == 'a' }} {{ none == false }} {{ missing == missing2 }} {{ missing == none }} {{ '' == none }}
{{ 2 in nums }} {{ 5 in nums }} {{ 5 not in nums }} {{ 'an' in 'banana' }} {{ 'x' not in 'banana' }} {{ '' in '' }} {{ 'a' in d }} {{ 'z' in d }} {{ 1 in missing }}
{{ not 1 in nums }} {{ not (1 in nums) }} {{ 'role' in messages[0] }}
{{ 1 in 'abc' }}
{{ 1 in 5 }}
{{ 'a' in none }}
{{ 1 and 2 }} {{ 0 and 2 }} {{ 1 or 2 }} {{ 0 or '' }} {{ '' or 'x' }} {{ not 1 }} {{ not '' }} {{ not not 3 }} {{ 1 and 0 or 3 }} {{ none or missing }}|
{{ true and false or true }} {{ not true or true }} {{ not (true or true) }} {{ 1 or missing.x }}
{{ 'a' if yes else 'b' }} {{ 'a' if no else 'b' }} {{ 'a' if no }}| {{ 1 if no else 2 if no else 3 }} {{ (1 if yes else 2) + 1 }}
{{ ('a' if no) + 'x' }}
{{ name[0] }} {{ name[-1] }} {{ name[1:3] }} {{ name[::-1] }} {{ name[::2] }} {{ name[:-1] }} {{ name[-3:] }} {{ name[3:1] }}| {{ name[10:] }}| {{ name[99] }}|
{{ uni[0:5] }} {{ uni[::-1] }} {{ uni[-2] }} {{ uni | length }} {{ uni[7:13:2] }} {{ uni[-1:-8:-3] }}
{{ nums[0] }} {{ nums[-1] }} {{ nums[1:3] }} {{ nums[::-1] }} {{ nums[::2] }} {{ nums[99] }}| {{ nums['x'] }}| {{ nums.0 }} {{ nested.1.1.0 }} {{ nums[10:0:-2] }} {{ nums[:] }} {{ nums[1:99] }}
{{ nums[true] }} {{ (1, 2, 3)[1:] }} {{ (1, 2)[0] }} {{ nums[none:2] }} |
{{ nums['a':2] }}
{{ d[1:2] }}
{{ missing[1:] }}
{{ nums[missing:] }}
{{ n[1:] }}
{{ nums[::0] }}
{{ nums[missing] }}|
{{ messages[0].role }} {{ messages[0]['role'] }} {{ messages[0]['role'][0] }} {{ messages[-1].content|trim }} {{ messages[0].nope }}|
{{ messages[99].role }}
{{ missing.attr }}
{{ missing['a'] }}
{{ missing() }}
{{ d.a }} {{ d['b'] }} {{ d.zzz }}| {{ d[1] }}| {{ d['zzz'] is defined }} {{ deep.x.y.z }} {{ deep.list[1].k }} {{ deep['list'][0]['k'] }}
{{ d.zzz.y }}
{{ d[[1]] }}|
{{ {1: 'a'}[1] }} {{ {1: 'a'}[1.0] }} {{ {1: 'a'}[true] }} {{ {(1, 2): 'x'}[(1, 2)] }} {{ {'a': 1}['a', 'b'] }}|
{{ odd_keys['items'] }} {{ odd_keys['a b'] }} {{ odd_keys['get'] }} {{ odd_keys.class }} {{ odd_keys['update'] }}
{{ odd_keys.items() | list | length }} {{ odd_keys.get('get') }} {{ odd_keys.update }}|
{{ odd_keys.update.x }}
{{ name.upper() }} {{ name.lower() }} {{ 'hello world'.title() }} {{ 'hELLO'.capitalize() }} {{ 'aBc'.swapcase() }} {{ "they're bill's".title() }}
{{ uni.upper() }} {{ uni.lower() }} {{ 'straße'.upper() }} {{ 'ÉCOLE'.lower() }} {{ 'éa b'.title() }}
{{ text.strip() }}| {{ text.lstrip() }}| {{ text.rstrip() }}| {{ 'xxaxx'.strip('x') }} {{ 'abcba'.lstrip('ab') }} {{ 'abcba'.rstrip('ab') }} {{ '\n\t x \n'.strip() }}| {{ 'x'.strip('') }} {{ 'äxä'.strip('ä') }}
{{ 'a,b,,c'.split(',') }} {{ 'a b  c '.split() }} {{ 'a b c'.split(' ') }} {{ 'a,b,c'.split(',', 1) }} {{ ' a b c '.split(none, 1) }} {{ ''.split() }} {{ ''.split(',') }} {{ 'abc'.split('abc') }} {{ 'a,b,c'.split(sep=',', maxsplit=1) }}
{{ 'a,b,c'.rsplit(',', 1) }} {{ ' a b  c '.rsplit(none, 1) }} {{ ' a b  c '.rsplit() }} {{ 'a</think>b</think>c'.split('</think>')[-1].lstrip('\n') }} {{ 'aXXbXXc'.rsplit('XX') }}
{{ 'abc'.split('') }}
{{ lines.splitlines() }} {{ lines.splitlines(true) }} {{ ''.splitlines() }} {{ '\n'.splitlines() }} {{ 'a\n'.splitlines() }} {{ 'a\x0bb\x0cc\x1cd\u2028e'.splitlines() }}
{{ 'hello'.startswith('he') }} {{ 'hello'.startswith(('x', 'he')) }} {{ 'hello'.endswith('lo') }} {{ 'hello'.startswith('') }} {{ 'hello'.startswith('ell', 1) }} {{ 'hello'.endswith('l', 0, 4) }} {{ ''.startswith('a') }}
{{ 'hello'.startswith(1) }}
{{ 'hello'.find('l') }} {{ 'hello'.rfind('l') }} {{ 'hello'.find('z') }} {{ 'hello'.index('l') }} {{ 'hello'.count('l') }} {{ 'aaaa'.count('aa') }} {{ 'abc'.count('') }} {{ uni.find('日') }} {{ 'hello'.find('l', 3) }} {{ 'hello'.rindex('l', 0, 3) }} {{ 'abc'.find('') }} {{ 'abc'.rfind('') }}
{{ 'hello'.index('z') }}
{{ 'hello'.replace('l', 'L') }} {{ 'hello'.replace('l', 'L', 1) }} {{ 'abc'.replace('', '-') }} {{ 'abc'.replace('', '-', 2) }} {{ ''.replace('', 'x') }} {{ 'aaa'.replace('aa', 'b') }} {{ 'äö'.replace('', '.') }}
{{ ', '.join(['a', 'b']) }} {{ ''.join(words) }} {{ '-'.join('abc') }} {{ ','.join(d) }} {{ ','.join([]) }}|
{{ ','.join(nums) }}
{{ 'a-b-c'.partition('-') }} {{ 'a-b-c'.rpartition('-') }} {{ 'abc'.partition('-') }} {{ 'abc'.rpartition('-') }}
{{ 'prefix_x'.removeprefix('prefix_') }} {{ 'x.txt'.removesuffix('.txt') }} {{ 'x'.removeprefix('y') }} {{ 'ab'.removesuffix('') }}
{{ 'ab'.center(7) }}| {{ 'abc'.center(6, '*') }} {{ 'ab'.center(5, '*') }} {{ 'ab'.ljust(5) }}| {{ 'ab'.rjust(5, '.') }} {{ '42'.zfill(5) }} {{ '-42'.zfill(6) }} {{ 'a\tb'.expandtabs(4) }}| {{ 'a\tb\nab\tc'.expandtabs() }}
{{ 'abc'.isalpha() }} {{ 'ab1'.isalnum() }} {{ '123'.isdigit() }} {{ '12.3'.isdigit() }} {{ ' '.isspace() }} {{ ''.isspace() }} {{ 'ABC'.isupper() }} {{ 'aBC'.islower() }} {{ 'Abc Def'.istitle() }} {{ '²'.isdigit() }} {{ '²'.isdecimal() }} {{ '½'.isnumeric() }} {{ 'a_1'.isidentifier() }} {{ '1a'.isidentifier() }} {{ 'abc'.isascii() }} {{ 'é'.isascii() }} {{ 'a\n'.isprintable() }} {{ '日本'.isalpha() }}
{{ 'a'.nope }}| {{ 'a'.nope is defined }} {{ name.upper is defined }} {{ name.upper is callable }}
{{ 'a'.nope() }}
{{ d.get('a') }} {{ d.get('z') }} {{ d.get('z', 5) }}
{{ d.keys() }} {{ d.values() }} {{ d.items() }} {{ d.keys() | list }} {{ d.items() | list }} {{ d.items() | length }} {{ d.copy() }} {{ d.values() | sum }}
{{ d.items()[0] }}|
{{ nums.count(1) }} {{ nums.index(2) }} {{ (1, 1).count(1) }} {{ nums.copy() }}
{{ nums.index(99) }}
{{ nums.append(1) }}
{{ d.pop('a') }}
{{ d.update({'x': 1}) }}
{{ nums.sort() }}
{{ nums.append }}|
{{ name.__class__ }}|{{ [].__class__ }}|{{ name['__class__'] }}|{{ name.__class__ is defined }}
{{ name.__class__.__mro__ }}
{{ ''.__class__.__base__.__subclasses__() }}
{{ d.__init__.__globals__ }}
{{ range.__call__ }}|
{{ name | attr('__class__') }}|
{{ name|upper }} {{ name|lower }} {{ 'hello world-foo (bar)'|title }} {{ 'hELLO wORLD'|capitalize }} {{ n|upper }} {{ missing|upper }}|
{{ text|trim }}| {{ 'xxaxx'|trim('x') }} {{ n|trim }} {{ missing|trim }}| {{ none|trim }}
{{ name|length }} {{ nums|length }} {{ d|length }} {{ missing|length }} {{ nums|count }} {{ uni|length }} {{ ''|length }}
{{ n|length }}
{{ none|length }}
{{ nums|first }} {{ nums|last }} {{ 'abc'|first }} {{ 'abc'|last }} {{ []|first }}| {{ []|last }}| {{ d|first }} {{ d|last }} {{ '日本'|last }} {{ range(3)|last }}
{{ n|first }}
{{ nums|select('odd')|last }}
{{ []|first + 1 }}
{{ missing|default('x') }} {{ missing|d('y') }} {{ ''|default('x') }}| {{ ''|default('x', true) }} {{ none|default('x') }} {{ none|default('x', boolean=true) }} {{ missing|default }}| {{ 0|default(5, true) }} {{ n|default('x') }}
{{ missing.x|default('y') }}
{{ nums|join }} {{ nums|join(', ') }} {{ users|join(', ', attribute='name') }} {{ 'abc'|join('-') }} {{ [1, none, true]|join('|') }} {{ missing|join(',') }}| {{ [[1], 'a']|join(',') }} {{ d|join(',') }} {{ nums|join(d=';') }} {{ words|join(none) }}
{{ nums|sort }} {{ nums|sort(reverse=true) }} {{ words|sort }} {{ words|sort(case_sensitive=true) }} {{ users|sort(attribute='age')|map(attribute='name')|list }} {{ users|sort(attribute='age,name')|map(attribute='name')|join }} {{ users|sort(attribute='city', reverse=true)|map(attribute='name')|join }} {{ 'hello'|sort }} {{ d|sort }} {{ [true, 0, 0.5]|sort }}
{{ [1, 'a']|sort }}
{{ [none, 1]|sort }}
{{ users|sort(attribute='nope') }}
{{ d|dictsort }} {{ d|dictsort(true) }} {{ d|dictsort(by='value') }} {{ d|dictsort(false, 'value', true) }} {{ d|dictsort(reverse=true) }}
{{ nums|dictsort }}
{{ nums|reverse|list }} {{ 'abc'|reverse }} {{ uni|reverse }} {{ (1, 2)|reverse|list }} {{ d|reverse|list }} {{ range(3)|reverse|list }}
{{ words|unique|list }} {{ words|unique(true)|list }} {{ [1, 1.0, true, 2]|unique|list }} {{ users|unique(attribute='age')|map(attribute='name')|list }} {{ 'aAbB'|unique|join }}
{{ nested|unique|list }}
{{ nums|min }} {{ nums|max }} {{ words|min }} {{ words|max }} {{ []|min }}| {{ users|max(attribute='age') }} {{ users|min(attribute='age') }} {{ 'hello'|max }} {{ ['b', 'A']|min(case_sensitive=true) }}
{{ nums|sum }} {{ users|sum(attribute='age') }} {{ nums|sum(start=100) }} {{ []|sum }} {{ floats|sum }} {{ [[1], [2]]|sum(start=[]) }} {{ [0.1]*3|sum }}|{{ ([0.1]*3)|sum }}
{{ words|sum }}
{{ nums|list }} {{ 'abc'|list }} {{ d|list }} {{ range(4)|list }} {{ missing|list }} {{ (1, 2)|list }} {{ uni[:3]|list }}
{{ n|list }}
{{ nums|map('string')|list }} {{ words|map('upper')|join(',') }} {{ users|map(attribute='name')|list }} {{ users|map(attribute='zip', default='?')|list }} {{ deep.list|map(attribute='k')|join }} {{ words|map('replace', 'a', 'X')|list }} {{ nested|map('length')|list }} {{ words|map('first')|list }} {{ nested|map(attribute=0)|list }} {{ missing|map('upper')|list }} {{ nums|map('default', 1)|list }} {{ messages|map(attribute='role')|unique|join('/') }}
{{ nums|map('nope')|list }}
{{ nums|map|list }}
{{ nums|select('odd')|list }} {{ nums|reject('odd')|list }} {{ nums|select('gt', 2)|list }} {{ nums|select('>', 2)|list }} {{ [0, 1, '', 'a', none]|select|list }} {{ [0, 1, '', 'a', none]|reject|list }} {{ nums|select('in', [1, 2])|list }} {{ words|select('equalto', 'Apple')|list }} {{ nums|select('divisibleby', 5)|list }} {{ words|select('lower')|list }} {{ [1, 'a', none]|select('string')|list }}
{{ users|selectattr('ok')|map(attribute='name')|list }} {{ users|rejectattr('ok')|map(attribute='name')|list }} {{ users|selectattr('age', 'ge', 30)|map(attribute='name')|list }} {{ messages|selectattr('role', 'equalto', 'user')|list|length }} {{ users|selectattr('ok', 'defined')|list|length }} {{ users|selectattr('ok', 'undefined')|map(attribute='name')|first }} {{ messages|rejectattr('role', '==', 'system')|map(attribute='content')|first }} {{ messages|selectattr('role', 'in', ['user', 'system'])|list|length }} {{ tools|selectattr('function.name', 'eq', 'get_weather')|list|length }}
{{ users|groupby('city') }} {{ users|groupby('age')|map('first')|list }} {{ users|groupby('ok', default='no')|list|length }}
{% for city, us in users|groupby('city') %}{{ city }}:{{ us|map(attribute='name')|join('+') }};{% endfor %}{% for g in users|groupby('age') %}{{ g.grouper }}={{ g.list|length }},{% endfor %}{% for g in users|groupby('city', case_sensitive=true) %}{{ g[0] }} {% endfor %}
{{ nums|batch(2)|list }} {{ nums|batch(2, 'x')|list }} {{ nums|slice(2)|list }} {{ nums|slice(3, 'x')|list }} {{ []|batch(3)|list }} {{ range(7)|batch(3)|map('join')|join('/') }}
{{ 'a\nb\n\nc'|indent }} {{ 'a\nb'|indent(2) }} {{ 'a\nb'|indent(2, true) }} {{ 'a\n\nb'|indent(2, blank=true) }} {{ 'a\nb'|indent('> ') }} {{ 'a\nb'|indent(width=1, first=true) }} {{ ''|indent(2, true) }}| {{ 'a\n'|indent }}|
{{ n|indent }}
{{ 'foo bar baz qux'|truncate(9) }} {{ 'foo bar baz qux'|truncate(9, true) }} {{ 'foo bar baz qux'|truncate(11) }} {{ 'foo bar baz qux'|truncate(11, false, '...', 0) }} {{ 'short'|truncate(3, leeway=0) }} {{ uni|truncate(8, true, '…', 0) }}
{{ nums|truncate(3) }} {{ {'b': 1}|truncate(3, true, '..', 3) }} {{ missing|truncate(3) }}|
{{ nums|truncate(3, true, '', 0) }}
{{ nums|truncate(2, false, '.', 1) }}
{{ 5|truncate }}
{{ 'hello world foo'|wordcount }} {{ uni|wordcount }} {{ ''|wordcount }}
{{ 'ab'|center(6) }}| {{ 'abc'|center(6) }}|
{{ html|escape }} {{ html|e }} {{ html|safe }} {{ html|string }} {{ html }}
{{ 'a b&c/d?é='|urlencode }} {{ {'a b': 1, 'c': 'x/y'}|urlencode }} {{ [('a', 1), ('b', '&')]|urlencode }} {{ n|urlencode }}
{{ '42'|int }} {{ '42.7'|int }} {{ 'x'|int }} {{ 'x'|int(7) }} {{ '0x1f'|int(base=16) }} {{ 'ff'|int(0, 16) }} {{ 3.9|int }} {{ -3.9|int }} {{ true|int }} {{ none|int }} {{ ' 12 '|int }} {{ '1_000'|int }} {{ ''|int }} {{ '0b11'|int(base=2) }} {{ '-5'|int }} {{ [1]|int }} {{ '1e3'|int }}
{{ missing|int }}
{{ '4.5'|float }} {{ 'x'|float }} {{ 'x'|float(1.5) }} {{ 3|float }} {{ '1e3'|float }} {{ ' 2 '|float }} {{ true|float }} {{ 'inf'|float }} {{ '-Infinity'|float }} {{ 'nan'|float }} {{ none|float }}
{{ -5|abs }} {{ (-5)|abs }} {{ neg|abs }} {{ -5.5|abs }} {{ true|abs }}
{{ 'a'|abs }}
{{ 42.55|round }} {{ 42.55|round(1) }} {{ 42.55|round(1, 'floor') }} {{ 42.45|round(1, 'ceil') }} {{ 2.5|round }} {{ 3.5|round }} {{ 42|round }} {{ 1234|round(-2) }} {{ 1250|round(-2) }} {{ 2.675|round(2) }} {{ 42.1|round|int }} {{ -2.5|round }} {{ pi|round(3) }} {{ 7|round(1, 'floor') }} {{ 1e22|round(2) }}
{{ 'x'|round }}
{{ 1|filesizeformat }} {{ 1000|filesizeformat }} {{ 123456|filesizeformat }} {{ 123456789|filesizeformat(true) }} {{ '500'|filesizeformat }} {{ 1e13|filesizeformat }}
{{ 'a'|string }} {{ 1|string }} {{ none|string }} {{ [1, 'a']|string }} {{ missing|string }}| {{ 1.0|string + 'x' }}
{{ '%s is %d' % ('a', 5) }} {{ '%s' % 'x' }} {{ '%s' % [1, 2] }} {{ '%05d|%-5d|%+d|% d' % (42, 42, 42, 42) }} {{ '%.2f %5.1f %e %g' % (pi, pi, pi, pi) }} {{ '%x %X %o %#x' % (255, 255, 8, 255) }} {{ '%%' % () }} {{ '%c%c' % ('a', 66) }} {{ '%r' % 'q' }} {{ '%(a)s-%(b)d' % d }} {{ '%5s|%-5s|%.2s' % ('ab', 'ab', 'abc') }} {{ '%*d' % (5, 1) }} {{ '%s' % none }} {{ '%d' % 3.9 }} {{ '%s' % true }}
{{ '%s %s' % 'a' }}
{{ '%s' % ('a', 'b') }}
{{ '%d' % 'a' }}
{{ '%s, %s!'|format('Hello', name) }} {{ '%(a)s'|format(a=5) }} {{ '%d%%'|format(50) }}
{{ '{} {}'.format('a', 1) }} {{ '{1} {0}'.format('a', 'b') }} {{ '{x}-{y}'.format(x=1, y='z') }} {{ '{:>5}|{:<5}|{:^5}|{:*^7}'.format('a', 'b', 'c', 'd') }} {{ '{:.2f} {:05d} {:,} {:x} {:b} {:%}'.format(pi, 42, 1234567, 255, 5, 0.25) }} {{ '{{}}'.format() }} {{ '{0[a]} {1[0]}'.format(d, nums) }} {{ '{!r}'.format('x') }} {{ '{:.3}'.format('abcdef') }} {{ '{:+d} {:e} {:g}'.format(5, 12345.678, 0.0001) }} {{ '{:>6}'.format(3.5) }} {{ '{:d}'.format(true) }} {{ '{}'.format(none) }} {{ '{0.a}'.format(d) }}
{{ '{} {}'.format(1) }}
{{ '{x}'.format(y=1) }}
{{ '{:d}'.format('a') }}
{{ '{'.format() }}
{{ '{0.__class__}'.format(1) }}
{{ d|tojson }} {{ nums|tojson }} {{ floats|tojson }} {{ name|tojson }} {{ none|tojson }} {{ true|tojson }} {{ [1.0, 'a', none]|tojson }} {{ html|tojson }} {{ uni|tojson }} {{ quotes|tojson }} {{ (1, 2)|tojson }} {{ {1: 2, none: 3, true: 4, 1.5: 5}|tojson }} {{ {}|tojson }} {{ []|tojson }}
{{ tools|tojson }}
{{ tools|tojson(indent=2) }}
{{ tools[0]|tojson(indent=4) }} {{ []|tojson(indent=2) }} {{ {}|tojson(indent=2) }} {{ [[]]|tojson(indent=1) }} {{ d|tojson(indent='--') }}
{{ uni|tojson(ensure_ascii=true) }} {{ d|tojson(separators=(',', ':')) }} {{ d|tojson(sort_keys=true) }} {{ tools|tojson(indent=none, sort_keys=true) }} {{ '\x7f\x01\u2028'|tojson }} {{ '\x7f\x01\u2028'|tojson(true) }} {{ d|tojson(indent=0) }} {{ d|tojson(indent=2, separators=(' , ', ' : ')) }}
{{ missing|tojson }}
{{ [missing]|tojson }}
{{ d.items()|tojson }}
{{ range(3)|tojson }}
{{ {(1, 2): 3}|tojson }}
{{ 'inf'|float|tojson }} {{ 'nan'|float|tojson }} {{ 1e16|tojson }} {{ 123456789.123|tojson }} {{ 1e-5|tojson }} {{ 0.0001|tojson }} {{ 5e-324|tojson }} {{ 1.7976931348623157e308|tojson }} {{ -0.0|tojson }} {{ 1e15|tojson }} {{ 123456789012345680.0 }}
{{ floats }} {{ 1e16 }} {{ 1e15 }} {{ 9999999999999998.0 }} {{ 0.1 }} {{ 1/3 }} {{ 2/3 }} {{ 1e100 }} {{ 1.0e-10 }} {{ 100000000000000000000.0 }}
{{ [quotes, "it's", 'say "x"', '\x00\x1f\x7f\xa0\u200b\ue000é😀'] }}
{{ yes is true }} {{ no is false }} {{ yes is false }} {{ 1 is true }} {{ none is none }} {{ missing is none }} {{ n is defined }} {{ missing is defined }} {{ missing is undefined }} {{ missing is not defined }} {{ n is not none }}
{{ 'a' is string }} {{ 1 is string }} {{ 1 is number }} {{ 1.5 is number }} {{ true is number }} {{ 'a' is number }} {{ 1 is integer }} {{ true is integer }} {{ 1.0 is integer }} {{ 1.0 is float }} {{ 1 is float }} {{ true is boolean }} {{ 1 is boolean }}
{{ d is mapping }} {{ nums is mapping }} {{ nums is sequence }} {{ 'a' is sequence }} {{ d is sequence }} {{ 1 is sequence }} {{ nums is iterable }} {{ 'a' is iterable }} {{ 1 is iterable }} {{ d is iterable }} {{ missing is iterable }} {{ missing is sequence }} {{ none is iterable }} {{ (1,) is sequence }} {{ range(2) is sequence }} {{ d.items() is sequence }} {{ nums|map('string') is iterable }} {{ nums|map('string') is sequence }}
{{ 3 is odd }} {{ 4 is even }} {{ 9 is divisibleby 3 }} {{ 9 is divisibleby(4) }} {{ 'abc' is lower }} {{ 'ABC' is upper }} {{ 'Abc' is lower }} {{ 1 is eq 1 }} {{ 1 is equalto 2 }} {{ 1 is ne 2 }} {{ 2 is gt 1 }} {{ 2 is lt 1 }} {{ 2 is ge 2 }} {{ 2 is le 1 }} {{ 1 is sameas 1 }} {{ true is sameas true }} {{ 1 is sameas true }} {{ 1 is in [1, 2] }} {{ 3 is in(nums) }} {{ 'a' is in 'abc' }} {{ 1 is greaterthan 0 }} {{ 1 is lessthan 2 }}
{{ range is callable }} {{ n is callable }} {{ 'upper' is filter }} {{ 'nope' is filter }} {{ 'odd' is test }} {{ 'x' is escaped }} {{ missing is callable }}
{{ 'a' is odd }}
{{ 1 is not string and 2 is number }} {{ not 1 is string }} {{ n is defined and n > 10 }} {{ 1 is string or 'x' }} {{ n is number if yes else 'no' }} {{ [1] is sequence and [1] is not mapping }}
{{ 1 is nope }}
{{ 1|nope }}
{% if false %}{{ 1|nope }}{% endif %}ok
{{ 1|nope if false else 'ok' }}
{% if false %}{{ 1 is nope }}{% endif %}ok
{% if true %}{{ 1|nope }}{% endif %}
{{ range(5) }} {{ range(1, 5) }} {{ range(0, 10, 3) }} {{ range(5, 0, -2)|list }} {{ range(3)|list }} {{ range(0)|list }} {{ range(5)[1] }} {{ range(5)[1:3]|list }} {{ range(5)|length }} {{ 3 in range(5) }} {{ range(10)[::-3]|list }} {{ range(5, 0)|list }} {{ range(3) == range(0, 3) }} {{ range(4)|sum }}
{{ range(100001)|length }}
{{ range(100000)|length }}
{{ range('a') }}
{{ range(1, 2, 0) }}
{{ range() }}
{{ dict(a=1, b=2) }} {{ dict() }} {{ dict({'x': 1}, y=2) }} {{ dict([('a', 1)]) }} {{ dict(d, b=9) }}
{% set ns = namespace(a=1) %}{{ ns.a }} {% set ns.a = 2 %}{{ ns.a }} {% set ns.b = 'x' %}{{ ns.b }} {{ ns['b'] }} {{ ns.zzz }}| {{ ns.zzz is defined }} {{ ns }}
{% set ns = namespace({'k': 1}, j=2) %}{{ ns.k }}{{ ns.j }}{{ namespace() }}
{% set x.y = 1 %}
{% set d.q = 1 %}{{ d.q }}
{% set a = 1 %}{{ a }} {% set a = a + 1 %}{{ a }} {% set b, c = 1, 2 %}{{ b }}{{ c }} {% set (e, f) = 'xy' %}{{ e }}{{ f }} {% set g = 1, %}{{ g }} {% set h = [] %}{{ h }}
{% set a, b = [1] %}
{% set a, b = [1, 2, 3] %}
{% set a, b = 5 %}
{% set 1 = 2 %}
{% set a.b.c = 2 %}
{% set x %}block {{ name }}{% endset %}{{ x }}|{{ x|length }} {% set y | upper | trim %} inner {% endset %}{{ y }}|
{% if yes %}a{% endif %} {% if no %}a{% else %}b{% endif %} {% if no %}a{% elif yes %}c{% else %}d{% endif %} {% if no %}a{% elif no %}c{% endif %}| {% if nothing %}x{% endif %}{% if missing %}y{% endif %}{% if [] %}z{% endif %}{% if '' %}w{% endif %}{% if 0.0 %}v{% endif %}|
{% if a is defined and a %}x{% elif not no and (yes or missing.x) %}y{% endif %}
{% for x in nums %}{{ x }},{% endfor %} {% for x in [] %}a{% else %}none{% endfor %} {% for x in [1] %}a{% else %}none{% endfor %} {% for c in 'aé😀' %}[{{ c }}]{% endfor %} {% for k in d %}{{ k }}{% endfor %} {% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %} {% for k, v in d|items %}{{ k }}{{ v }}{% endfor %} {% for x in missing %}a{% else %}undef{% endfor %}
{% for x in none %}{% endfor %}
{% for x in 5 %}{% endfor %}
{% for a, b in nums %}{% endfor %}
{% for a, (b, c) in [(1, (2, 3)), (4, 'xy')] %}{{ a }}{{ b }}{{ c }} {% endfor %}
{% for x in nums %}{{ loop.index }}/{{ loop.length }} {{ loop.index0 }} {{ loop.revindex }} {{ loop.revindex0 }} {{ loop.first }} {{ loop.last }} {{ loop.previtem }} {{ loop.nextitem }} {{ loop.depth }} {{ loop.depth0 }} {{ loop.cycle('a', 'b', 'c') }};{% endfor %}
{% for x in nums if x > 2 %}{{ loop.index }}:{{ x }}:{{ loop.last }}:{{ loop.length }} {% else %}none{% endfor %} {% for x in nums if x > 99 %}{{ x }}{% else %}none{% endfor %}
{% for x in [1, 1, 2, 2, 1] %}{{ loop.changed(x) }} {% endfor %}{% for x in nums %}{% if loop.changed(x > 2) %}*{% endif %}{{ x }}{% endfor %}
{% for x in nums %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 10 %}{% break %}{% endif %}{{ x }}{% endfor %} {% for a in [1, 2] %}{% for b in [1, 2] %}{% if b == 2 %}{% break %}{% endif %}{{ a }}{{ b }} {% endfor %}{% endfor %}{% for x in [1] %}{% break %}{% else %}no{% endfor %}
{% break %}
{% for a in [1, 2] %}{% for b in 'xy' %}{{ loop.index }}{{ a }}{{ b }} {% endfor %}{{ loop.index }}{% endfor %} {% for a in [1, 2] %}{% set outer = loop %}{% for b in 'xy' %}{{ outer.index }}{{ loop.index }} {% endfor %}{% endfor %}
{% set x = 1 %}{% for i in [1, 2] %}{{ x }}{% set x = x + 1 %}{{ x }}{% endfor %}{{ x }}
{% for i in [1, 2] %}{% set y = i %}{% endfor %}{{ y }}| {% if true %}{% set z = 5 %}{% endif %}{{ z }} {% with %}{% set w = 1 %}{{ w }}{% endwith %}{{ w }}|
{% for i in [1, 2, 3] %}{{ q }}{% set q = i %}{% endfor %}|
{% for i in [1, 2] %}{% if i == 1 %}{% set name = 'changed' %}{% endif %}{{ name }} {% endfor %}{{ name }}
{% set ns = namespace(found=false, n=0) %}{% for x in nums %}{% if x > 2 and not ns.found %}{% set ns.found = true %}{% set ns.n = x %}{% endif %}{% endfor %}{{ ns.found }} {{ ns.n }}
{% set ns = namespace(stop=false) %}{% for x in nums if not ns.stop %}{{ x }}{% if x == 1 %}{% set ns.stop = true %}{% endif %}{% endfor %}
{% set ns = namespace(stop=false) %}{% for x in nums if not ns.stop %}{{ x }}{{ loop.last }}{% if x == 1 %}{% set ns.stop = true %}{% endif %}{% endfor %}
{% for m in messages %}{{ loop.previtem.role if loop.previtem is defined else '-' }}>{{ loop.nextitem.role if loop.nextitem else '-' }} {% endfor %}
{% for m in messages[::-1] %}{{ m.role[0] }}{{ (messages|length - 1) - loop.index0 }}{% endfor %} {% for m in messages[1:] %}{{ m.role }}{% endfor %} {% for m in messages|reverse %}{{ m.role }}{% endfor %}
{% for item in tree recursive %}{{ item.v }}{{ loop.depth }}{% if item.c %}({{ loop(item.c) }}){% endif %}{% if not loop.last %},{% endif %}{% endfor %}
{% for x in nums %}{{ loop(x) }}{% endfor %}
{% for loop in nums %}{% endfor %}
{% for x in nums %}{% set loop = 1 %}{% endfor %}
{% for x in nums %}{{ loop }} {% endfor %}{% for x in nums %}{{ loop|length }}{% endfor %}
{{ loop }}|
{% for x in nums %}x{% endfor %}{{ loop is defined }}
{% for i in range(3) %}{% for j in range(i) %}{{ i }}{{ j }} {% endfor %}{% endfor %}
{% for x in nums|map('string') %}{{ loop.length }}{{ x }} {% endfor %}{% set g = nums|select('odd') %}{% for x in g %}{{ x }}{% endfor %}{% for x in g %}{{ x }}{% endfor %}|{{ g|list }}
{% set g = nums|map('string') %}{{ 'yes' if g else 'no' }} {{ g|first }} {{ g|first }} {{ g|list }}
{{ nums|map('string')|length }}
{{ (nums|map('string'))[0] }}|
{% macro m(a, b=2, c='x') %}[{{ a }}{{ b }}{{ c }}]{% endmacro %}{{ m(1) }} {{ m(1, 3) }} {{ m(1, c='z') }} {{ m() }} {{ m(b=1, a=2) }} {{ m('<') }} {{ m(1)|upper }} {{ m }} {{ m.name }} {{ m.arguments }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(z=2) }}
{% macro m(a, b) %}{{ b is defined }}{{ a is defined }}{% endmacro %}{{ m(1) }} {{ m() }}
{% macro m(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }} {{ m(1, 2) }}
{% macro m(a=1, b) %}{% endmacro %}
{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, x=3) }} {{ m() }}{% macro k(a) %}{{ a }}{{ varargs|join }}{% endmacro %}{{ k(1, 2, 3) }} {{ k(*[1, 2], **{}) }} {{ k(*'ab') }}
{% macro m() %}{{ kwargs.x }}{% endmacro %}{{ m(**{'x': 5}) }} {{ m(x=1) }}
{% macro outer() %}({{ caller() }}){% endmacro %}{% call outer() %}body {{ name }}{% endcall %}
{% macro outer() %}{{ caller(1, b=2) }}{% endmacro %}{% call(a, b=0, c=3) outer() %}{{ a }}{{ b }}{{ c }}{% endcall %}
{% macro outer() %}{{ caller is defined }}{% if caller %}{{ caller() }}{% endif %}{% endmacro %}{{ outer() }}{% call outer() %}x{% endcall %}
{% macro plain() %}x{% endmacro %}{% call plain() %}y{% endcall %}
{% macro f(n) %}{% if n > 1 %}{{ f(n - 1) }}*{% endif %}{{ n }}{% endmacro %}{{ f(5) }}
{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}B{% endmacro %}{{ a() }}
{{ later() }}{% macro later() %}x{% endmacro %}
{% set g = 1 %}{% macro m() %}{{ g }}{% endmacro %}{% set g = 2 %}{{ m() }}
{% macro m() %}{% set inner = 5 %}{{ inner }}{% endmacro %}{{ m() }}{{ inner }}|
{% for i in [1, 2] %}{% macro m() %}{{ i }}{% endmacro %}{{ m() }}{% endfor %}
{% macro m(x) %}{{ x.role }}:{{ x['content']|trim }}{% endmacro %}{% for x in messages %}{{ m(x) }};{% endfor %}
{% macro m(a) -%}   {{ a }}   {%- endmacro %}[{{ m(1) }}]
{% filter upper %}abc {{ name }}{% endfilter %} {% filter trim|replace('a', 'b') %}  banana {% endfilter %}|
{% with a=1, b=2 %}{{ a }}{{ b }}{% endwith %}{{ a }}| {% set a = 5 %}{% with a=a+1, b=a %}{{ a }}{{ b }}{% endwith %}
{% raw %}{{ not }} {% parsed %}{% endraw %} {% raw -%}   x {%- endraw %}|
{# comment #}a{# multi
line #}b {#- trimmed -#} c
{% generation %}gen {{ name }}{% endgeneration %} {% generation %}{% set gg = 1 %}{% endgeneration %}{{ gg }}|
{% block title %}B {{ name }}{% endblock %} {% block t2 %}{% set zz = 1 %}{% endblock t2 %}{{ zz }}|
{% print 1, 'a' %}
{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.current }}{{ c.next() }}{{ c.next() }}{% set x = c.reset() %}{{ c.current }}
{% set j = joiner() %}{{ j() }}a{{ j() }}b {% set k = joiner('|') %}{{ k() }}{{ k() }}{{ k() }}
{{ cycler() }}
{{ raise_exception('custom message') }}
{% if messages[0].role != 'user' %}{{ raise_exception('Conversation roles must alternate') }}{% endif %}
{{ strftime_now('%Y')|length }}
{{ include }}|
{% include 'x' %}
{% extends 'x' %}
{% import 'x' as y %}
{% do 1 %}
{% nope %}
{% endif %}
{% if yes %}
{% for x in nums %}
{% if yes %}{% endfor %}
{% for x nums %}{% endfor %}
{% for in nums %}{% endfor %}
{% set %}
{% set x = %}
{{ }}
{{ 1 + }}
{{ (1 }}
{{ [1, 2 }}
{{ 1 ) }}
{{ {'a' 1} }}
{{ 'unterminated }}
{{ name
{{ a b }}
{{ 1 2 }}
{{ name. }}
{{ name.5x }}
{{ nums[ }}
{{ nums[] }}|
{{ |upper }}
{{ name| }}
{{ name is }}
{{ 1 if }}
{{ 1 if 2 else }}
{{ $x }}
{{ a ? b : c }}
{{ a && b }}
{{ !a }}
{% if a = b %}{% endif %}
{# unterminated
{% raw %} unterminated
{% macro %}{% endmacro %}
{% macro m(1) %}{% endmacro %}
{% macro m(a,, b) %}{% endmacro %}
{{ f(a=1, 2) }}
{{ f(**{}, 2) }}
{{ dict(*[1], *[2]) }}
{{ "\x4" }}
{% call 5 %}{% endcall %}
{{ 1 is string is number }}
{{ 007 }}
{{ 1.e5 }}
{{ 99999999999999999999 > 1 }}|skip
{{ name['upper']() }} {{ d['get']('a') }} {{ 'x'['upper'] is callable }}
{{ name|attr('upper') is callable }} {{ d|attr('a') }}| {{ d|attr('get') is callable }}
{{ ('a', 'b')|join }} {{ ['a', ['b', ['c']]] }} {{ [[[[]]]] }}
{{ 'a' 'b' ~ 'c' }} {{ 'x' 'y'|upper }} {{ -1|abs }} {{ 1 - -1 }} {{ 1 -1 }} {{ 1-1 }} {{ 3 -2 -1 }}
{{ nums|map('string')|map('length')|sum }} {{ nums|sort|first }} {{ nums|sort|last }} {{ words|map('lower')|unique|sort|join(' ') }}
{{ 'a' in ['a', 'b'] and 'c' not in ['a'] }} {{ (1 in [1]) == true }} {{ 1 in [1] == true }}
{{ {'a': {'b': [1, {'c': 'deep'}]}}.a.b[1].c }} {{ [1, 2, 3][1] }} {{ 'abc'[1] }} {{ (1, 2)[1] }} {{ {'k': 'v'}['k'] }} {{ 'abc'.upper()[0] }} {{ [d][0].a }}
{{ messages|map(attribute='content')|map('trim')|join(' / ') }} {{ messages|length - 1 }} {{ messages|length > 3 }}
{{ (messages|selectattr('role', 'equalto', 'assistant')|list|last).content }} {{ messages|selectattr('n', 'defined')|map(attribute='n')|list }}
{{ messages[-1]['content'].strip().split(' ')[0] }} {{ messages[0]['content'][:3] ~ '...' }} {{ messages[1:][0].role }} {{ messages[:1]|length }}
{{ ['a', 'b'] | join(', ') | upper | replace('A', 'z') }} {{ name | default('x') | lower ~ '!' }}
{{ 3.0 }} {{ 3.0|int }} {{ 3.0 == 3 }} {{ 10 // 3.0 }} {{ 2 ** 2.0 }} {{ 5 % 3.0 }} {{ 1e2 }} {{ 1.10 }}
{{ 9007199254740993 }} {{ 9223372036854775807 }} {{ -9223372036854775807 - 1 }} {{ 4611686018427387904 * 2 - 1 if false else 1 }}
{{ 'a\\b' }} {{ "a\\nb" }} {{ 'a/b' }} {{ "\"" }} {{ '\'' }} {{ '{{' }} {{ '}}' }} {{ '{%' }} {{ "%}" }} {{ '#}' }}
{{ {'a': 1}.items()|list }} {{ {}|length }} {{ {'x': {'y': 1}}.x.y }} {{ {} }} {{ { } }}
{%- set x = 5 -%}  {{- x -}}  |
{{- name -}}   end   {{ name -}} x {{- name }}
a {%- if yes -%} b {%- endif -%} c
{{ text|trim|replace(' ', '_')|upper }} {{ 'a-b_c'|replace('-', ' ')|replace('_', ' ')|title }} {{ 'aaa'|replace('a', 'b', 2) }} {{ 123|replace(2, 'x') }}
{{ ''.join(['a', 'b'])|upper }} {{ ','.join(nums|map('string')) }} {{ '\n'.join(words|sort) }}
{{ nums|select('odd')|map('string')|join('+') }} = {{ nums|select('odd')|sum }}
{{ users|map(attribute='city')|map('lower')|unique|list }} {{ users|selectattr('age', '>', 26)|sum(attribute='age') }} {{ users|map(attribute='name')|map('length')|max }}
{{ [1, 2, 3]|map('string')|join(',')|replace(',', '') | int + 1 }}
{{ 'x' * n }} {{ '=' * 5 }} {{ '-' * (name|length) }}
{{ not missing }} {{ missing or 'default' }} {{ missing is undefined or missing.x }} {{ (missing|default({})).x }}|
{{ [missing, 1] }} {{ {'a': missing} }} {{ missing ~ 'x' }} {{ missing|list }} {{ missing == '' }}
{{ true|string|lower }} {{ none is none }} {{ nothing|default('d') }} {{ nothing == none }}
{{ 'A' < 'a' }} {{ 'abc' < 'abd' }} {{ 'é' > 'z' }} {{ '' < 'a' }} {{ 'a' == 'a' }} {{ 'a' != 'b' }} {{ '10' < '9' }}
{{ 5 if n == 42 and name == 'World' else 6 }} {{ 'even' if n is even else 'odd' }} {{ n if n else 'none' }}
{{ d.items()|sort }} {{ d.items()|map('first')|list }} {{ d|dictsort|map('last')|list }} {{ d.values()|list|sort }} {{ d.keys()|sort|join }}
{{ dict(a=1).a }} {{ dict(**d).a }} {{ dict(d|items)|length }} {{ d == dict(d) }} {{ {'a': 1, 'b': 2} == {'b': 2, 'a': 1} }}
{{ 'abc' is in ['abc'] }} {{ 'a' is not in 'xyz' }} {{ none is in [none] }}
{{ 'one\ntwo'|indent(4)|replace('\n', '|') }} {{ 'a\nb'.split('\n')|join('+') }}
{% for l in 'a b c'.split() -%}{{ loop.index ~ l }}{% if not loop.last %}, {% endif %}{%- endfor %}
{% set content = '<think>\nreason\n</think>\n\nanswer' %}{{ content.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') }}|{{ content.split('</think>')[-1].lstrip('\n') }}
{% set x = {'a': 1} %}{% set x = dict(x, b=2) %}{{ x }} {% set l = [1] %}{% set l = l + [2] %}{{ l }}
{{ 'a' ~ ('b' if yes else 'c') ~ 'd' }} {{ ('a' ~ 'b')|upper }} {{ 'a' ~ 'b'|upper }}
{{ pi.is_integer() }} {{ 3.0.is_integer() if false else 1 }}
{{ caller }}|{{ varargs }}|{{ kwargs }}|
{{ 5|string|length }} {{ 5|string ~ 5 }} {{ '5' + 5|string }}
{{ 'İstanbul'|length }} {{ 'ﬁ'|upper|length }}|skip
{% set _ = 1 %}{{ _ }} {% set _a = 2 %}{{ _a }} {% for _ in range(2) %}x{% endfor %}
{{ 'abc'|list|reverse|join }} {{ 'abc'|map('upper')|join('.') }} {{ 'hello'|batch(2)|map('join')|list }}
{% set a %}{% for i in range(3) %}{{ i }}{% endfor %}{% endset %}{{ a }}{{ a is string }}
{{ (1, 2) == (1, 2) }} {{ (1, 2) in [(1, 2)] }} {{ [] == [] }} {{ [[]] == [[]] }} {{ {} == [] }} {{ none in [none, 1] }} {{ true in [1] }}
{{ 1 if missing is defined and missing.x else 2 }} {{ missing.x if missing is defined else 'no' }}
{{ 'a,b;c'.replace(';', ',').split(',')|map('upper')|list }}
{{ 'x'.join(['1', '2', '3'])[1:-1] }} {{ 'abcdef'[::3] }} {{ 'abcdef'[-1::-2] }} {{ 'abcdef'[4:1:-1] }} {{ 'abc'[-5:] }} {{ 'abc'[:-5] }}|
""".strip("\n")

# ---------------------------------------------------------------- whitespace: lines matter
BLOCKS = [
    "a\n{% if yes %}\nb\n{% endif %}\nc\n",
    "a\n  {% if yes %}\n  b\n  {% endif %}\nc",
    "a\n  {%+ if yes %}\n  b\n  {%+ endif %}\nc",
    "{% if yes +%}\nb{% endif +%}\nc",
    "a {% if yes %} b {% endif %} c\n",
    "  {% if yes %}x{% endif %}\n  {{ name }}\n",
    "  {{ name }}\n  {{- name }}\n",
    "{% for x in nums %}\n  {{ x }}\n{% endfor %}\nend",
    "{% for x in nums -%}\n  {{ x }}\n{%- endfor %}\nend",
    "{%- for x in nums -%}\n  {{- x -}}\n{%- endfor -%}\nend\n\n",
    "line1\n{# comment #}\nline2\n  {# c #}  \nline3 {# c #}\nline4",
    "a {#- c -#}\n b {#+ c +#}\n c",
    "a\n   {%- set x = 1 -%}   \n b {{ x }}",
    "{% set x = 1 %}\n{% set y = 2 %}\n{{ x }}{{ y }}\n",
    "{% raw %}\n  {{ x }}\n{% endraw %}\nend",
    "a\n  {% raw %}  {% x %}  {% endraw %}\nb",
    "a\n  {%- raw -%}  {% x %}  {%- endraw -%}  \nb",
    "a\n {% raw +%} x {% endraw +%}\nb",
    "{{ name }}\n\n{{ name }}\n\n\n",
    "\n{{ name }}",
    "\n\n",
    "",
    "   ",
    "\t{% if yes %}\tx{% endif %}\t",
    "x\r\n{% if yes %}\r\ny\r\n{% endif %}\r\nz\r\n",
    "x\r{{ 'a\r\nb' }}\ry",
    "a\n\u00a0{% if yes %}b{% endif %}",
    "a\n\u2003{%- if yes -%}\u2003b{% endif %}",
    "a{{- ' x ' -}}b",
    "a\n\n   {{- ' x ' -}}   \n\nb",
    "{% macro m(a) %}\n  <{{ a }}>\n{% endmacro %}\n[{{ m(1) }}]\n",
    "{% macro m(a) -%}\n  <{{ a }}>\n{%- endmacro -%}\n[{{ m(1) }}]\n",
    "{% set x %}\n  text\n{% endset %}\n[{{ x }}]",
    "{% filter upper %}\n  text\n{% endfilter %}\nend",
    "{% if yes %}{% if no %}\na\n{% else %}\nb\n{% endif %}{% endif %}\nc",
    "{{ [1,\n 2,\n 3] }}\n{{ {'a':\n1} }}",
    "{%\n if yes\n %}\nx{%\n endif\n%}",
    "{%-\nif yes\n-%}\nx{%-\nendif\n-%}y",
    "{{ '{{ x }}' }}{{ \"{% y %}\" }}",
    "{{'a'}}{{'b'}}\n{{-'c'}}",
    "{ { x } } {% raw %}{{{% endraw %} }} %} #} {x} { %",
    "{{ {'a': {'b': 1}} }}{{ {'a': {'b': 1}}['a'] }}",
    "{{ {'a': 1}.a }}}}",
    "{%- if yes %}\n    {{- '<a>\\n' }}\n    {%- if no %}\n        {{- 'b' }}\n    {%- else %}\n        {{- 'c' }}\n    {%- endif %}\n{%- endif %}\n",
    "{% for m in messages %}\n{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>' + '\n' }}\n{% endfor %}\n{% if add_generation_prompt %}\n{{ '<|im_start|>assistant\n' }}\n{% endif %}",
    "{% if yes %}\n\n\nx{% endif %}\n\n\ny",
    "{{ name }}{% if yes %}\n{% endif %}{{ name }}",
    "a  {% if yes %}  b  {%- endif %}  c",
    "a\n  b {% if yes %} c\n{% endif %}",
    "{% if yes: %}x{% endif %}{% for i in [1]: %}{{ i }}{% endfor %}",
    "{#- a -#}   {#- b -#}\n  x",
    "{{ name }}  \n  {%- if yes %} y {% endif -%}  \n  z",
    "a{# {{ x }} {% y %} #}b{#\n#}\nc",
    "{##}x{# #}y{#-#}z",
    "{{- 'x' }}\n{%- if yes %}\n{%- endif %}\n{{ 'y' -}}\n",
    "{% if yes -%}   \n\n  x  \n\n {%- else -%} y {%- endif %}",
    "{{+ name }}{{ name +}}" if False else "{{+ name }}",
    "{% call(x) m() %}{% endcall %}",
    # slices of constants, which jinja2 computes before the template runs
    "{{ 5[1:2] }}", "{{ n[1:2] }}", "{{ (5[1:2])|default('x') }}", "{% set x = 5[1:2]|default('q') %}{{ x }}", "{% set x = 5[1:2] %}{{ x }}",
    "{{ 'abc'['a':] }}", "{{ {'a': 1}['a':] }}", "{{ [5[1:2]] }}", "{% set x = [5[1:2]] %}{{ x }}", "{{ none[1:]|length }}", "{{ true[1:] is defined }}",
    "{{ 5[1:]|length if n else 0 }}", "{{ 5[1:] if yes }}", "{{ 'abc'[::0] }}", "{{ 5[1:] ~ n }}", "{{ (5[1:] ~ 'a') ~ n }}", "{{ n ~ (5[1:] ~ 'a') }}",
    "{{ 5[1:].x }}", "{{ 5[1:][2:] }}", "{{ 5[1:]|list }}", "{{ [5[1:]]|map('string')|list }}", "{{ [5[1:], 1]|first }}", "{{ {'a': 5[1:]} }}",
    "{% if 5[1:] %}a{% endif %}", "{% if not 5[1:] %}a{% endif %}", "{% for x in 5[1:] %}{{ x }}{% else %}e{% endfor %}", "{{ 5[1:] or 'o' }}",
    "{{ m(5[1:]) }}", "{{ 5[1:] == 6[1:] }}", "{{ (5[1:] or n) }}", "{{ 'a' if 5[1:] else 'b' }}", "{{ 5[1:].a.b }}", "{{ 5[1:] + 1 }}", "{{ -5[1:] }}",
    "{{ (5[1:]|default([1, 2]))[n:] }}", "{{ (n if false else 5)[1:] }}", "{{ (n if true else 5)[1:] }}", "{{ (0 and n)[1:] }}", "{{ (0 or n)[1:] }}",
    "{{ missing|last }}", "{{ ''[0]|last }}", "{{ missing|first }}", "{{ missing|reverse|list }}", "{{ none|last }}", "{{ (x for x in 5)|last }}", "{{ 5[n:] }}", "{{ 5[1:]|foo }}", "{{ [1, 2, 3][5[1:]:] }}", "{{ {}.a[1:] }}",
    # names of filters with dots, and where an unknown one is an error at once
    "{{ n|foo.bar }}", "{% if n %}{{ n|foo.bar }}{% endif %}", "{% if no %}{{ n|foo.bar }}{% endif %}x", "{{ 1 if n else n|foo.bar }}",
    "{% if no %}{{ n|foo.bar.baz(1) }}{% endif %}x", "{% if no %}{{ n|upper.x }}{% endif %}x", "{% if no %}{{ n is foo.bar }}{% endif %}x",
    "{% if no %}{{ n is not foo.bar 1 }}{% endif %}x", "{% if no %}{{ n|foo. }}{% endif %}x", "{% if no %}{{ n|foo.1 }}{% endif %}x", "{{ n|upper.x }}",
    "{% if no %}{% filter foo.bar %}a{% endfilter %}{% endif %}x", "{% if no %}{% filter upper|foo %}a{% endfilter %}{% endif %}x",
    "{% if no %}{% filter upper %}{{ n|foo }}{% endfilter %}{% endif %}x", "{% if no %}{% for i in nums %}{{ i|foo }}{% endfor %}{% endif %}x",
    "{% if no %}{% for i in nums|foo %}{% endfor %}{% endif %}x", "{% if no %}{% for i in nums if i|foo %}{% endfor %}{% endif %}x",
    "{% if no %}{% for i in nums %}{% if i %}{{ i|foo }}{% endif %}{% else %}{{ i is foo }}{% endfor %}{% endif %}x",
    "{% if no %}{% set a | foo %}b{% endset %}{% endif %}x", "{% if no %}{% set a = n|foo %}{% endif %}x", "{% if no %}{% set a %}{{ n|foo }}{% endset %}{% endif %}x",
    "{% if no %}{% with a = n|foo %}{% endwith %}{% endif %}x", "{% if no %}{% with a = n %}{{ a|foo }}{% endwith %}{% endif %}x",
    "{% if no %}{% macro m(a=n|foo) %}{% endmacro %}{% endif %}x", "{% if no %}{% macro m(a) %}{{ n|foo }}{% endmacro %}{% endif %}x",
    "{% if no %}{% call m(n|foo) %}{% endcall %}{% endif %}x", "{% if no %}{% call m(n) %}{{ n|foo }}{% endcall %}{% endif %}x",
    "{% if no %}{% block b %}{{ n|foo }}{% endblock %}{% endif %}x", "{% if no %}{% generation %}{{ n|foo }}{% endgeneration %}{% endif %}x",
    "{% if no %}{% elif n|foo %}{% endif %}x", "{% if no %}{% else %}{{ 'a' if yes else n|foo }}{% endif %}x", "{{ (1 if yes else 2)|foo }}", "{{ [n|foo if no else 2] }}",
    "{{ [n|foo, 1 if no else 2] }}", "{{ (n|foo, 2) if no else 3 }}", "{{ (2 if n is foo else 3) if no else 4 }}", "{{ m(n|foo) if no else (2 if no else 3) }}",
    "{% for a in nums %}{% for b in nums %}{% if b > a %}{% break %}{% endif %}{{ b }}{% else %}e{% endfor %}\n{% endfor %}",
]
