"""Random template expressions, from a grammar that knows which types go together, so that most of them render."""

import random

STRINGS = ["''", "'a'", "'Hello World'", "'a,b,c'", "'  pad '", "'é日😀'", "'x\\ny'", "'it\\'s'", "'12'", "'-3.5'", "'A-b_c d'", "name", "uni", "text", "lines", "quotes"]
INTS = ["0", "1", "2", "3", "-1", "-4", "7", "42", "n", "zero", "neg", "true", "false", "yes", "big"]
FLOATS = ["0.5", "1.0", "2.75", "-1.5", "pi", "half", "1e3", "1e-5", "1e16", "0.1"]
LISTS = ["[]", "[1, 2, 3]", "nums", "words", "['b', 'a', 'B']", "[1, 'a', none]", "nested", "(1, 2)", "range(5)", "range(6, 0, -2)", "[0.5, 1, true]", "'abc'|list", "floats", "users|map(attribute='name')|list"]
DICTS = ["{}", "d", "{'a': 1, 'b': [2]}", "{1: 'x', none: 2}", "deep", "users[0]", "messages[1]", "{'x': {'y': 'z'}}"]
OTHER = ["none", "nothing", "missing", "true", "false"]


class Gen:
    def __init__(self, seed):
        self.r = random.Random(seed)

    def pick(self, *options):
        option = self.r.choice(options)
        return option() if callable(option) else option

    def small(self):
        return str(self.r.randint(-5, 6))

    def string(self, d):
        if d <= 0:
            return self.pick(*STRINGS)
        s, t, i = lambda: self.string(d - 1), lambda: self.string(0), self.small
        return self.pick(
            lambda: f"({s()} + {t()})",
            lambda: f"({self.any(d - 1)} ~ {s()})",
            lambda: f"({s()} * {self.r.randint(-1, 3)})",
            lambda: f"{s()}[{i()}:{i()}]",
            lambda: f"{s()}[{i()}:]",
            lambda: f"{s()}[::{self.r.choice([-3, -2, -1, 1, 2, 3])}]",
            lambda: f"{s()}[{i()}:{i()}:{self.r.choice([-2, -1, 2])}]",
            lambda: f"{s()}[{i()}]",
            lambda: f"{s()}.{self.r.choice(['upper', 'lower', 'title', 'capitalize', 'strip', 'lstrip', 'rstrip', 'swapcase'])}()",
            lambda: f"{s()}.{self.r.choice(['strip', 'lstrip', 'rstrip'])}({t()})",
            lambda: f"{s()}.replace({t()}, {t()})",
            lambda: f"{s()}.replace({t()}, {t()}, {self.r.randint(-1, 3)})",
            lambda: f"{s()}.{self.r.choice(['center', 'ljust', 'rjust', 'zfill'])}({self.r.randint(-2, 16)})",
            lambda: f"{s()}.{self.r.choice(['removeprefix', 'removesuffix'])}({t()})",
            lambda: f"{t()}.join({self.list(d - 1)}|map('string'))",
            lambda: f"({s()}|{self.r.choice(['upper', 'lower', 'title', 'capitalize', 'trim', 'reverse', 'string', 'escape', 'urlencode', 'indent', 'first', 'last', 'safe'])})",
            lambda: f"({self.any(d - 1)}|string)",
            lambda: f"({s()}|replace({t()}, {t()}))",
            lambda: f"({s()}|trim({t()}))",
            lambda: f"({s()}|indent({self.r.randint(0, 5)}, {self.flag()}, {self.flag()}))",
            lambda: f"({s()}|truncate({self.r.randint(3, 12)}, {self.flag()}, '..', {self.r.randint(0, 3)}))",
            lambda: f"({s()}|center({self.r.randint(0, 20)}))",
            lambda: f"({self.list(d - 1)}|join({t()}))",
            lambda: f"({self.any(d - 1)}|tojson)",
            lambda: f"({self.any(d - 1)}|tojson(indent={self.r.randint(0, 3)}))",
            lambda: f"({self.dict(d - 1)}|tojson(sort_keys=true, ensure_ascii={self.flag()}))",
            lambda: f"('%s|%r' % ({self.any(d - 1)}, {self.any(0)}))",
            lambda: f"('%{self.r.choice(['', '-', '+', '0', ' '])}{self.r.randint(0, 9)}{self.r.choice('dxoeEfgs')}' % ({self.number(d - 1)},))",
            lambda: f"('%.{self.r.randint(0, 5)}{self.r.choice('efgs')}' % ({self.number(d - 1)},))",
            lambda: f"'{{:{self.r.choice(['', '<', '>', '^', '*^'])}{self.r.randint(1, 12)}}}'.format({self.string(d - 1)})",
            lambda: f"'{{:{self.r.choice(['', '+', ' '])}{self.r.choice(['', '0', ','])}.{self.r.randint(0, 4)}{self.r.choice('ef%')}}}'.format({self.number(d - 1)})",
            lambda: f"'{{0}}{{1!r}}{{0}}'.format({self.any(d - 1)}, {self.any(0)})",
            lambda: f"({s()} if {self.bool(d - 1)} else {t()})",
            lambda: f"({self.any(d - 1)}|default({t()}, {self.flag()}))",
        )

    def flag(self):
        return self.r.choice(["true", "false"])

    def number(self, d):
        if d <= 0:
            return self.pick(*INTS, *FLOATS)
        x, y = lambda: self.number(d - 1), lambda: self.number(0)
        return self.pick(
            lambda: f"({x()} {self.r.choice(['+', '-', '*', '/', '//', '%'])} {y()})",
            lambda: f"({self.r.choice(['2', '-3', '1.5', '0', '10'])} ** {self.r.randint(-3, 5)})",
            lambda: f"(-{x()})",
            lambda: f"({x()}|{self.r.choice(['abs', 'int', 'float', 'round'])})",
            lambda: f"({x()}|round({self.r.randint(-2, 4)}))",
            lambda: f"({x()}|round({self.r.randint(0, 3)}, {self.r.choice(['''ceil''', '''floor''']) !r}))",
            lambda: f"({self.any(d - 1)}|length)",
            lambda: f"({self.list(d - 1)}|sum)",
            lambda: f"({self.string(d - 1)}|{self.r.choice(['int', 'float', 'length', 'wordcount'])})",
            lambda: f"{self.string(d - 1)}.{self.r.choice(['count', 'find', 'rfind'])}({self.string(0)})",
            lambda: f"{self.list(d - 1)}[{self.small()}]",
            lambda: f"({self.list(d - 1)}|{self.r.choice(['min', 'max', 'first', 'last', 'length'])})",
            lambda: f"({x()} if {self.bool(d - 1)} else {y()})",
            lambda: f"{self.list(d - 1)}.count({y()})",
        )

    def list(self, d):
        if d <= 0:
            return self.pick(*LISTS)
        x = lambda: self.list(d - 1)
        return self.pick(
            lambda: f"[{', '.join(self.any(d - 1) for _ in range(self.r.randint(0, 4)))}]",
            lambda: f"({x()} + {self.list(0)})",
            lambda: f"({x()} * {self.r.randint(0, 2)})",
            lambda: f"{x()}[{self.small()}:{self.small()}]",
            lambda: f"{x()}[::{self.r.choice([-2, -1, 1, 2])}]",
            lambda: f"({x()}|{self.r.choice(['list', 'sort', 'reverse|list', 'unique|list'])})",
            lambda: f"({x()}|sort(reverse={self.flag()}, case_sensitive={self.flag()}))",
            lambda: f"({x()}|map('{self.r.choice(['string', 'upper', 'length', 'int', 'first', 'tojson', 'default'])}')|list)",
            lambda: f"({x()}|{self.r.choice(['select', 'reject'])}('{self.r.choice(['odd', 'string', 'number', 'defined', 'none', 'sequence', 'mapping', 'lower'])}')|list)",
            lambda: f"({x()}|select|list)",
            lambda: f"({x()}|batch({self.r.randint(1, 4)})|list)",
            lambda: f"({x()}|slice({self.r.randint(1, 4)}, 'f')|list)",
            lambda: f"(users|{self.r.choice(['selectattr', 'rejectattr'])}('{self.r.choice(['ok', 'age', 'name', 'zip'])}')|map(attribute='name')|list)",
            lambda: f"(users|selectattr('age', '{self.r.choice(['gt', '<', 'eq', '>=', 'in'])}', {self.r.choice(['25', '30', '[25]'])})|list)",
            lambda: f"(users|groupby('{self.r.choice(['age', 'city', 'ok'])}')|list)",
            lambda: f"{self.string(d - 1)}.{self.r.choice(['split()', 'rsplit()', 'splitlines()', 'splitlines(true)'])}",
            lambda: f"{self.string(d - 1)}.{self.r.choice(['split', 'rsplit'])}({self.string(0)}, {self.r.randint(-1, 3)})",
            lambda: f"{self.string(d - 1)}.{self.r.choice(['partition', 'rpartition'])}({self.string(0)})",
            lambda: f"({self.string(d - 1)}|list)",
            lambda: f"({self.dict(d - 1)}|{self.r.choice(['list', 'dictsort', 'items|list', 'sort'])})",
            lambda: f"{self.dict(d - 1)}.{self.r.choice(['keys', 'values', 'items'])}()|list",
            lambda: f"range({self.r.randint(-3, 9)}, {self.r.randint(-3, 9)}, {self.r.choice([-2, -1, 1, 3])})",
        )

    def dict(self, d):
        if d <= 0:
            return self.pick(*DICTS)
        return self.pick(
            lambda: "{" + ", ".join(f"{self.pick(*STRINGS[:5], *INTS, 'none')}: {self.any(d - 1)}" for _ in range(self.r.randint(0, 12))) + "}",
            lambda: f"dict({self.dict(d - 1)}, k={self.any(d - 1)})",
            lambda: f"dict({self.dict(d - 1)}.items())",
            lambda: f"{self.dict(d - 1)}.copy()",
        )

    def bool(self, d):
        if d <= 0:
            return self.pick("true", "false", "yes", "no", "n == 42", "missing")
        a = lambda: self.any(d - 1)
        tests = ["defined", "undefined", "none", "string", "mapping", "iterable", "sequence", "number", "integer", "float", "boolean", "true", "false", "callable", "lower", "upper"]
        return self.pick(
            lambda: f"({a()} {self.r.choice(['==', '!='])} {a()})",
            lambda: f"({self.number(d - 1)} {self.r.choice(['<', '>', '<=', '>='])} {self.number(d - 1)})",
            lambda: f"({self.string(d - 1)} {self.r.choice(['<', '>', '<=', '>='])} {self.string(d - 1)})",
            lambda: f"({self.list(d - 1)} < {self.list(d - 1)})",
            lambda: f"({a()} is {self.r.choice(['', 'not '])}{self.r.choice(tests)})",
            lambda: f"({self.number(d - 1)} is {self.r.choice(['odd', 'even', 'divisibleby 3'])})",
            lambda: f"({a()} {self.r.choice(['in', 'not in'])} {self.list(d - 1)})",
            lambda: f"({self.string(0)} {self.r.choice(['in', 'not in'])} {self.string(d - 1)})",
            lambda: f"({self.string(0)} in {self.dict(d - 1)})",
            lambda: f"({self.bool(d - 1)} {self.r.choice(['and', 'or'])} {a()})",
            lambda: f"(not {a()})",
            lambda: f"{self.string(d - 1)}.{self.r.choice(['startswith', 'endswith'])}({self.string(0)})",
            lambda: f"{self.string(d - 1)}.{self.r.choice(['isalpha', 'isdigit', 'isspace', 'isupper', 'islower', 'istitle', 'isalnum', 'isascii', 'isidentifier', 'isnumeric', 'isdecimal', 'isprintable'])}()",
        )

    def any(self, d):
        if d <= 0:
            return self.pick(*STRINGS, *INTS, *FLOATS, *LISTS[:6], *DICTS[:4], *OTHER)
        return self.pick(
            lambda: self.string(d),
            lambda: self.string(d),
            lambda: self.number(d),
            lambda: self.list(d),
            lambda: self.dict(d),
            lambda: self.bool(d),
            lambda: f"{self.dict(d - 1)}.get({self.string(0)}, {self.any(d - 1)})",
            lambda: f"{self.dict(d - 1)}[{self.string(0)}]",
            lambda: f"{self.any(d - 1)}[{self.small()}:]",
        )

    def template(self):
        e = self.any
        n = lambda: self.r.randint(1, 3)
        return self.pick(
            lambda: "{{ %s }}" % e(n()),
            lambda: "{{ %s }}|{{- %s }}" % (e(2), e(1)),
            lambda: "{%% for x in %s %%}{{ x }}{{ loop.index }}{{ loop.last }};{%% else %%}none{%% endfor %%}" % self.list(n()),
            lambda: "{%% for x in %s if x %%}{{ loop.index0 }}/{{ loop.length }} {{ loop.nextitem }} {%% endfor %%}" % self.list(n()),
            lambda: "{%% if %s %%}\n  A\n{%% elif %s %%}\n  B\n{%%- else %%}\n  C\n{%% endif %%}\n." % (self.bool(n()), self.bool(1)),
            lambda: "{%% set x = %s %%}{{ x }}{%% set y %%} {{ x|string|length }} {%% endset %%}[{{ y }}]" % e(n()),
            lambda: "{%% macro m(a, b=%s) %%}{{ a }}-{{ b }}{%% endmacro %%}{{ m(%s) }} {{ m(1, b=%s) }}" % (e(1), e(n()), e(1)),
            lambda: "{%% for k, v in %s.items() %%}{{ k }}={{ v|tojson }},{%% endfor %%}" % self.dict(n()),
        )
