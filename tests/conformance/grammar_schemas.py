"""Schemas for test_grammar.py: one or more of each kind that is supported, random ones, and values that fit them.

`value(schema, rng, root)` writes a value that fulfils a schema of the kinds made here, with members in the schema's order."""

import random
import string

OBJ = "object"


def obj(properties, required=None, **more):
    return {"type": OBJ, "properties": properties, "required": list(properties) if required is None else required, **more}


CLOSED = {"additionalProperties": False}
STR, INT, NUM, BOOL, NULL = ({"type": t} for t in ("string", "integer", "number", "boolean", "null"))

# (schema, values that it must let through, values that it must not)
KINDS = [
    (True, [None, 1, "a", [], {}, {"a": [1, {"b": None}]}], []),
    ({}, [None, -0.5, [[[]]]], []),
    (STR, ["", "a", "é€😀", 'quote " back \\ slash / tab \t nl \n nul \x00 del \x7f', "\u2028"], [1, None, []]),
    (INT, [0, 1, -1, 123456789012345678], [1.5, "1", True]),
    (NUM, [0, 1, -1, 0.5, -12.25, 1e-7, 1.5e30], ["1", None]),
    (BOOL, [True, False], [0, "true", None]),
    (NULL, [None], [0, False, "null"]),
    ({"type": ["string", "null"]}, ["a", None], [1, []]),
    ({"type": ["integer", "array", "boolean"]}, [3, [1, "x"], True], ["a", None, 1.5, {}]),
    ({"type": ["number", "integer"]}, [3, 2.5], ["a"]),
    # numbers
    ({"type": "integer", "minimum": 0}, [0, 5, 10**17], [-1, -100]),
    ({"type": "integer", "minimum": -17, "maximum": 230}, [-17, 230, 0, 99, 100, -9, -10], [-18, 231, 1000]),
    ({"type": "integer", "exclusiveMinimum": 3, "exclusiveMaximum": 5}, [4], [3, 5]),
    ({"type": "integer", "minimum": 1.5, "maximum": 3.5}, [2, 3], [1, 4]),
    ({"type": "integer", "maximum": -5}, [-5, -6, -1000], [-4, 0, 5]),
    ({"type": "integer", "minimum": 1000, "maximum": 100000}, [1000, 9999, 10000, 100000], [999, 100001]),
    ({"type": "integer", "multipleOf": 7}, [0, 7, -14, 700], [1, 8, -13]),
    ({"type": "integer", "multipleOf": 12, "minimum": 100, "maximum": 200}, [108, 192], [96, 204, 100]),
    ({"type": "integer", "multipleOf": 0.5}, [1, 2, 3], []),
    ({"type": "integer", "multipleOf": 2.5}, [0, 5, -10], [1, 2, 3]),
    ({"type": "number", "multipleOf": 4}, [0, 8], [2, 8.5]),
    ({"type": "number", "multipleOf": 0.01}, [0.25, 1, -3.5, 12.34], [0.123]),
    ({"type": "number", "minimum": 0, "maximum": 1}, [0, 1, 0.5, 0.0, 1.0, 0.001], [-0.5, 1.5, 2, -1, 1.0001]),
    ({"type": "number", "exclusiveMinimum": 0}, [0.1, 5, 123.25, 0.001], [0, 0.0, -1, -0.5]),
    ({"type": "number", "exclusiveMinimum": 0.5, "exclusiveMaximum": 0.75}, [0.51, 0.7, 0.625], [0.5, 0.75, 0.4, 1, 0]),
    ({"type": "number", "minimum": -2.5, "maximum": -1.25}, [-2.5, -2, -1.25, -1.5], [-2.51, -1, 0, 1, -3]),
    ({"type": "number", "minimum": -0.5, "maximum": 10.05}, [-0.5, -0.25, 0, 10, 10.05, 9.999], [-0.6, 10.06, 11, -1]),
    ({"type": "number", "maximum": 1e-3}, [0.001, 0, -5, 0.0005], [0.002, 1]),
    ({"type": "number", "minimum": 0.1, "multipleOf": 0.1}, [0.1, 2.5], [0, 0.05]),
    ({"minimum": 5}, [5, 7.5, "a", None, [1], {"a": 1}], [4, 4.5]),
    # strings
    ({"type": "string", "minLength": 2}, ["ab", "😀é", "abc" * 50], ["", "a", "😀"]),
    ({"type": "string", "maxLength": 3}, ["", "abc", "😀é\n"], ["abcd", "aaaa😀"]),
    ({"type": "string", "minLength": 2, "maxLength": 2}, ["ab", "é\\"], ["a", "abc"]),
    ({"type": "string", "maxLength": 0}, [""], ["a"]),
    ({"type": "string", "minLength": 30, "maxLength": 40}, ["x" * 30, "é" * 40], ["x" * 29, "x" * 41]),
    ({"type": "string", "maxLength": 5000}, ["x" * 4999, "long " * 1000], ["x" * 5001]),
    ({"type": "string", "pattern": "^[a-z]+$"}, ["a", "xyz"], ["", "A", "ab1"]),
    ({"type": "string", "pattern": "b"}, ["b", "abc", "xxbxx😀"], ["", "ac"]),
    ({"type": "string", "pattern": "^a"}, ["a", "abc"], ["", "ba"]),
    ({"type": "string", "pattern": "z$"}, ["z", "xyz"], ["za", ""]),
    ({"type": "string", "pattern": "^(foo|ba[rz])+$"}, ["foo", "barbaz"], ["fo", "foob"]),
    ({"type": "string", "pattern": "^\\d{3}-\\d{4}$"}, ["123-4567"], ["1234567", "123-456"]),
    ({"type": "string", "pattern": "^\\w+@\\w+\\.(com|org)$"}, ["a@b.com", "x_1@y.org"], ["a@b.net", "a b@c.com"]),
    ({"type": "string", "pattern": "^a|b$"}, ["a", "b", "axx", "xxb"], ["x", ""]),
    ({"type": "string", "pattern": "^[^\"\\\\]*$", "maxLength": 4}, ["", "abé"], ['"', "\\", "abcde"]),
    ({"type": "string", "pattern": "^.{2,3}$"}, ["ab", "abc"], ["a", "abcd", "a\nb"]),
    ({"type": "string", "pattern": "^\\S+ \\S+$", "maxLength": 12}, ["a b", "hello world"], ["ab", "a b c d", "hello  world"]),
    ({"type": "string", "pattern": "^[\\u00e0-\\u00ff]{1,3}$"}, ["é", "àÿ"], ["e", "éééé"]),
    ({"type": "string", "pattern": "^\\p{Lu}\\p{Ll}*$"}, ["A", "Éa"], ["a", "AB"]),
    ({"type": "string", "pattern": "^(?:a{2,3}b?)*$", "minLength": 3}, ["aaa", "aab", "aabaaab"], ["a", "ab", "aa"]),
    ({"type": "string", "pattern": "^[A-F]*$", "minLength": 1, "maxLength": 2}, ["A", "FF"], ["", "ABC", "G"]),
    ({"type": "string", "pattern": "", "maxLength": 2}, ["", "ab"], ["abc"]),
    ({"type": "string", "pattern": "^[\\s\\S]{3}$"}, ["a\nb", "   "], ["ab"]),
    ({"type": "string", "pattern": "^\\D\\W$"}, ["a-", "é "], ["1-", "aa"]),
    ({"type": "string", "pattern": "^a??b+?c*?$"}, ["b", "abbcc"], ["a", "ac"]),
    ({"type": "string", "pattern": "^(?!^[-+.]*$)[+-]?0*\\d*\\.?\\d*$"}, ["1", "-1.5", "007", ".5"], ["", "-", ".", "a"]),
    ({"type": "string", "pattern": "^(?=.*[0-9])(?=.*[a-z])(?!.*x).{3,6}$"}, ["a1b", "99z9"], ["abc", "123", "a1x", "a1"]),
    ({"pattern": "^x"}, ["x", 5, None], ["y"]),
    # formats
    ({"type": "string", "format": "date"}, ["2024-02-29", "1999-12-31"], ["2023-02-29", "2024-13-01", "24-01-01"]),
    ({"type": "string", "format": "time"}, ["12:30:00Z", "23:59:59.5+01:00"], ["24:00:00Z", "12:30"]),
    ({"type": "string", "format": "date-time"}, ["2024-02-29T12:30:00Z"], ["2024-02-30T12:30:00Z", "2024-02-29"]),
    ({"type": "string", "format": "duration"}, ["P1D", "PT5M", "P1Y2M3DT4H5M6S", "P2W"], ["P", "PT", "1D"]),
    ({"type": "string", "format": "uuid"}, ["123e4567-e89b-12d3-a456-426614174000"], ["123e4567"]),
    ({"type": "string", "format": "email"}, ["a@b.org", "first.last+tag@sub.example.com"], ["a", "@b.org", "a@b"]),
    ({"type": "string", "format": "ipv4"}, ["127.0.0.1", "255.255.255.0"], ["256.0.0.1", "1.2.3"]),
    ({"type": "string", "format": "ipv6"}, ["::1", "2001:db8::8a2e:370:7334", "1:2:3:4:5:6:7:8", "::"], ["1:2", ":::"]),
    ({"type": "string", "format": "hostname"}, ["example.com", "a-b.c"], ["-a.com", "a..b"]),
    ({"type": "string", "format": "uri"}, ["https://example.com/a/b?q=1#f", "mailto:a@b.org"], ["no uri", "//x"]),
    ({"type": "string", "format": "of-my-own"}, ["anything"], []),
    # enum and const
    ({"enum": ["red", "green", "blue"]}, ["red", "blue"], ["reds", "re", 1]),
    ({"enum": ["a", 1, 2.5, None, True, "é\n"]}, ["a", 1, 2.5, None, True, "é\n"], ["b", 2, False]),
    ({"enum": [{"a": 1, "b": [1, 2]}, [], [{}]]}, [{"a": 1, "b": [1, 2]}, [], [{}]], [{"a": 1}, {}, [1]]),
    ({"enum": ["ab", "abc", "abcd", "abd"]}, ["ab", "abc", "abd"], ["a", "abcde"]),
    ({"enum": [1, 12, 123]}, [1, 12, 123], [2, 1234]),
    ({"type": "string", "enum": ["x", 1, None]}, ["x"], [1, None]),
    ({"type": "integer", "enum": [1, 5, 9], "minimum": 2}, [5, 9], [1]),
    ({"enum": ["a", "bb", "ccc"], "minLength": 2, "pattern": "c|b"}, ["bb", "ccc"], ["a"]),
    ({"const": "only"}, ["only"], ["onl", 1]),
    ({"const": 5}, [5], [6, "5"]),
    ({"const": {"k": [True, None]}}, [{"k": [True, None]}], [{}, {"k": []}]),
    ({"const": ""}, [""], ["a"]),
    # arrays
    ({"type": "array"}, [[], [1, "a", None], [[[]]]], [{}, "a"]),
    ({"type": "array", "items": INT}, [[], [1], [1, 2, 3]], [["a"], [1.5]]),
    ({"type": "array", "items": STR, "minItems": 1}, [["a"], ["a", "b"]], [[], [1]]),
    ({"type": "array", "items": BOOL, "maxItems": 2}, [[], [True], [True, False]], [[True] * 3]),
    ({"type": "array", "items": NUM, "minItems": 2, "maxItems": 4}, [[1, 2], [1, 2, 3, 4.5]], [[1], [1] * 5]),
    ({"type": "array", "items": False}, [[]], [[1]]),
    ({"type": "array", "maxItems": 0}, [[]], [[1]]),
    ({"type": "array", "prefixItems": [INT, STR]}, [[], [1], [1, "a"], [1, "a", None]], [["a"], [1, 2]]),
    ({"type": "array", "prefixItems": [INT, STR], "items": False}, [[], [1, "a"]], [[1, "a", 2]]),
    ({"type": "array", "prefixItems": [INT], "items": BOOL, "minItems": 2}, [[1, True], [1, True, False]], [[1], [1, 2]]),
    ({"type": "array", "prefixItems": [INT, INT, INT], "minItems": 3, "maxItems": 3}, [[1, 2, 3]], [[1, 2], [1, 2, 3, 4]]),
    ({"type": "array", "items": [INT, STR], "additionalItems": False}, [[1, "a"], [1]], []),
    ({"type": "array", "items": {"type": "array", "items": INT, "maxItems": 2}}, [[[1], [2, 3]], []], [[[1, 2, 3]], [1]]),
    ({"type": "array", "uniqueItems": True, "maxItems": 1}, [[], [1]], [[1, 1]]),
    ({"type": "array", "uniqueItems": True, "items": {"enum": ["a", "b", 3, None]}}, [[], ["a"], ["b", "a", None, 3], [3, "b"]], [["a", "a"], [3, "b", 3], ["c"]]),
    ({"type": "array", "uniqueItems": True, "items": {"$ref": "#/$defs/c"}, "minItems": 2, "maxItems": 2, "$defs": {"c": {"type": "string", "enum": ["x", "y", 5, "z"]}}}, [["x", "z"], ["z", "y"]], [["x"], ["x", "x"], ["x", 5], ["x", "y", "z"]]),
    ({"type": "array", "uniqueItems": False, "items": INT}, [[1, 1]], [["a"]]),
    ({"items": INT}, [[1], "a", 5, {"a": "b"}], [["a"]]),
    # objects
    ({"type": OBJ}, [{}, {"a": 1}, {"a": {"b": []}, "c": None}], [[], 1]),
    (obj({"a": INT, "b": STR}, **CLOSED), [{"a": 1, "b": "x"}], [{"a": 1}, {}, {"a": 1, "b": "x", "c": 1}, {"a": "1", "b": "x"}]),
    (obj({"a": INT, "b": STR}, [], **CLOSED), [{}, {"a": 1}, {"b": "x"}, {"a": 1, "b": "x"}], [{"c": 1}]),
    (obj({"a": INT, "b": STR, "c": BOOL}, ["b"], **CLOSED), [{"b": ""}, {"a": 1, "b": ""}, {"b": "", "c": True}], [{"a": 1}, {"c": True}]),
    (obj({"a": INT}), [{"a": 1}, {"a": 1, "b": "x", "c": [1]}], [{}, {"b": 1}, {"a": "x"}]),
    (obj({"a": INT}, [], additionalProperties=STR), [{}, {"a": 1}, {"z": "x"}, {"a": 1, "aa": "x", "": ""}], [{"z": 1}, {"a": "x"}]),
    ({"type": OBJ, "additionalProperties": INT}, [{}, {"x": 1, "y": 2}], [{"x": "a"}]),
    ({"type": OBJ, "additionalProperties": False}, [{}], [{"a": 1}]),
    ({"type": OBJ, "required": ["x", "y"]}, [{"x": 1, "y": None}, {"x": [], "y": 1, "z": 2}], [{"x": 1}, {"z": 1}]),
    (obj({"é": INT, 'q"': INT, "tab\t": STR, "": NULL, "😀": BOOL}, **CLOSED), [{"é": 1, 'q"': 2, "tab\t": "x", "": None, "😀": True}], [{"e": 1}]),
    (obj({"a": INT, "ab": INT, "abc": INT}, [], **CLOSED), [{"a": 1, "abc": 2}, {"ab": 1}], [{"abcd": 1}]),
    (obj({"a": INT}, ["a", "z"]), [{"a": 1, "z": "any"}], [{"a": 1}]),
    (obj({"no": False, "yes": True}, [], **CLOSED), [{}, {"yes": [1]}], [{"no": 1}]),
    ({"type": OBJ, "patternProperties": {"^s_": STR, "^i_": INT}, "additionalProperties": False}, [{}, {"s_a": "x", "i_b": 1}], [{"s_a": 1}, {"x": 1}]),
    ({"type": OBJ, "patternProperties": {"x": INT, "y": {"minimum": 5}}}, [{"ax": 1}, {"xy": 6}, {"z": "a"}, {"y": "s"}], [{"x": "a"}, {"xy": 4}, {"y": 4}]),
    (obj({"s_1": {"maxLength": 2}}, [], patternProperties={"^s_": STR}, additionalProperties=NULL), [{"s_1": "ab", "s_2": "abc", "q": None}], [{"s_1": 1}, {"s_1": "abc"}, {"q": 1}]),
    ({"type": OBJ, "propertyNames": {"pattern": "^[a-z]{1,3}$"}, "additionalProperties": INT}, [{"abc": 1}, {}], [{"abcd": 1}, {"A": 1}]),
    ({"type": OBJ, "propertyNames": {"maxLength": 2}}, [{"ab": 1, "c": None}], [{"abc": 1}]),
    ({"type": OBJ, "propertyNames": {"$ref": "#/$defs/c"}, "additionalProperties": INT, "$defs": {"c": {"enum": ["red", "blue"]}}}, [{}, {"red": 1, "blue": 2}, {"blue": 1}], [{"green": 1}, {"red": "x"}]),
    ({"type": OBJ, "properties": {"a": INT}, "unevaluatedProperties": False}, [{}, {"a": 1}], [{"b": 1}]),
    ({"const": -2.0}, [-2.0, -2], [2]),
    ({"maxLength": 2}, ["ab", 1, ["abc"], {"a": "abc"}], ["abc"]),
    ({"type": OBJ, "minProperties": 1}, [{"a": 1}, {"a": 1, "b": 2}], [{}]),
    ({"type": OBJ, "maxProperties": 2, "additionalProperties": INT}, [{}, {"a": 1}, {"a": 1, "b": 2}], [{"a": 1, "b": 2, "c": 3}]),
    (obj({k: INT for k in "abcd"}, [], **CLOSED, minProperties=2, maxProperties=3), [{"a": 1, "d": 1}, {"a": 1, "b": 1, "c": 1}], [{}, {"a": 1}, {k: 1 for k in "abcd"}]),
    (obj({k: INT for k in "abcd"}, ["d"], **CLOSED, maxProperties=2), [{"d": 1}, {"a": 1, "d": 2}], [{"a": 1, "b": 1}, {"a": 1, "b": 1, "d": 1}]),
    ({"type": OBJ, "maxProperties": 0}, [{}], [{"a": 1}]),
    ({"properties": {"a": INT}, "required": ["a"]}, [{"a": 1}, 5, "x", [1], None], [{}, {"a": "x"}]),
    (obj({"deep": obj({"er": obj({"est": {"type": "array", "items": obj({"x": NUM}, **CLOSED)}}, **CLOSED)}, **CLOSED)}, **CLOSED), [{"deep": {"er": {"est": [{"x": 1.5}, {"x": 2}]}}}], [{"deep": {}}]),
    (obj({f"field_{i}": STR for i in range(60)}, [f"field_{i}" for i in range(0, 60, 7)], **CLOSED), [{f"field_{i}": "v" for i in range(0, 60, 7)}, {f"field_{i}": "v" for i in range(60)}], [{"field_0": "v"}]),
    # anyOf, oneOf, allOf, $ref
    ({"anyOf": [STR, INT]}, ["a", 1], [None, 1.5]),
    ({"anyOf": [{"type": "string", "maxLength": 2}, {"type": "string", "pattern": "^x+$"}]}, ["ab", "xxxx"], ["abc"]),
    ({"anyOf": [obj({"kind": {"const": "a"}, "x": INT}, **CLOSED), obj({"kind": {"const": "b"}, "y": STR}, **CLOSED)]}, [{"kind": "a", "x": 1}, {"kind": "b", "y": "s"}], [{"kind": "a", "y": "s"}, {"kind": "c"}]),
    ({"anyOf": [obj({"a": INT}), obj({"a": STR})]}, [{"a": 1}, {"a": "x", "b": 1}], [{"a": None}]),
    ({"type": OBJ, "properties": {"a": INT, "b": INT}, "additionalProperties": False, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}, [{"a": 1}, {"b": 1}, {"a": 1, "b": 1}], [{}]),
    ({"anyOf": [{"const": 1}, {"const": "x"}, {"enum": [None, "y"]}]}, [1, "x", None, "y"], [2, "z"]),
    ({"anyOf": [INT, {"minimum": 2}]}, [1, 2.5, "a", 3], [1.5]),
    ({"anyOf": [{"type": "array", "items": INT}, {"type": "array", "items": STR}]}, [[1, 2], ["a"], []], [[1, "a"]]),
    ({"oneOf": [STR, INT]}, ["a", 1], [1.5]),
    ({"oneOf": [obj({"t": {"const": 1}}), obj({"t": {"const": 2}})]}, [{"t": 1}, {"t": 2, "x": 1}], [{"t": 3}]),
    ({"oneOf": [{"$ref": "#/$defs/c"}, {"$ref": "#/$defs/d"}], "$defs": {"c": obj({"pet": {"const": "cat"}, "n": INT}), "d": obj({"pet": {"enum": ["dog", "wolf"]}})}}, [{"pet": "cat", "n": 1}, {"pet": "wolf", "n": "x"}], [{"pet": "cat"}, {"pet": "fish"}, {}]),
    ({"oneOf": [obj({"k": {"const": "a"}}), obj({"k": {"const": "b"}}, [])]}, [{"k": "a"}, {"k": "b"}, {}, {"z": 1}], [{"k": "c"}]),
    ({"oneOf": [{"type": "integer", "maximum": 3}, {"type": "integer", "minimum": 10}]}, [3, 10], [5]),
    ({"oneOf": [{"type": "string", "pattern": "^a"}, {"type": "string", "pattern": "^b"}]}, ["a", "bc"], ["c"]),
    ({"oneOf": [NULL, {"type": "array", "items": {"oneOf": [INT, STR]}}]}, [None, [1, "a"]], [[None]]),
    (obj({"a": INT, "b": INT, "c": INT}, [], dependentRequired={"a": ["b"], "c": ["a"]}), [{}, {"b": 1}, {"a": 1, "b": 2}, {"a": 1, "b": 1, "c": 1}], [{"a": 1}, {"c": 1, "a": 1}, {"c": 1}]),
    (obj({"a": INT, "b": INT}, [], dependentSchemas={"a": {"properties": {"b": {"minimum": 5}}}}, **CLOSED), [{}, {"a": 1}, {"b": 1}, {"a": 1, "b": 5}], [{"a": 1, "b": 4}]),
    ({"allOf": [{"type": "integer"}, {"minimum": 3}, {"maximum": 5}]}, [3, 4, 5], [2, 6]),
    ({"allOf": [obj({"a": INT}), obj({"b": STR})]}, [{"a": 1, "b": "x"}, {"a": 1, "b": "x", "c": 1}], [{"a": 1}, {"b": "x"}]),
    ({"allOf": [{"properties": {"a": {"minimum": 1}}}, obj({"a": INT}, **CLOSED)]}, [{"a": 1}], [{"a": 0}, {"a": 1, "b": 1}]),
    ({"allOf": [{"anyOf": [STR, INT]}, {"anyOf": [INT, NULL]}]}, [1], ["a", None]),
    ({"allOf": [{"type": "string", "pattern": "a"}, {"pattern": "b"}], "maxLength": 3}, ["ab", "bxa"], ["a", "abcd"]),
    ({"allOf": [{"enum": [1, 2, 3]}, {"enum": [2, 3, 4]}]}, [2, 3], [1, 4]),
    ({"allOf": [{"type": "array", "prefixItems": [INT]}, {"items": {"minimum": 3}, "maxItems": 2}]}, [[3], [4, 5], [4, "a"]], [[1], [4, 2]]),
    ({"allOf": [{"multipleOf": 4, "type": "integer"}, {"multipleOf": 6}]}, [12, 24], [4, 6]),
    ({"$ref": "#/$defs/x", "$defs": {"x": {"type": "integer", "minimum": 1}}}, [1], [0]),
    ({"$ref": "#/definitions/a~1b%20c", "definitions": {"a/b c": STR}}, ["x"], [1]),
    ({"$defs": {"p": obj({"name": STR}, **CLOSED)}, "type": "array", "items": {"$ref": "#/$defs/p"}}, [[{"name": "x"}], []], [[{}]]),
    ({"$defs": {"n": {"type": "integer"}}, "$ref": "#/$defs/n", "maximum": 5}, [5], [6]),
    (
        {"$defs": {"node": obj({"v": INT, "next": {"anyOf": [{"$ref": "#/$defs/node"}, NULL]}}, **CLOSED)}, "$ref": "#/$defs/node"},
        [{"v": 1, "next": None}, {"v": 1, "next": {"v": 2, "next": {"v": 3, "next": None}}}],
        [{"v": 1}, {"v": 1, "next": 5}],
    ),
    (
        {"$defs": {"tree": obj({"kids": {"type": "array", "items": {"$ref": "#/$defs/tree"}}}, **CLOSED)}, "$ref": "#/$defs/tree"},
        [{"kids": []}, {"kids": [{"kids": []}, {"kids": [{"kids": []}]}]}],
        [{"kids": [1]}],
    ),
    ({"type": ["integer", "array"], "items": {"$ref": "#"}}, [1, [], [[1, [2]], 3]], ["a", [None]]),
    (
        {"$defs": {"e": {"anyOf": [NUM, obj({"op": {"enum": ["+", "*"]}, "l": {"$ref": "#/$defs/e"}, "r": {"$ref": "#/$defs/e"}}, **CLOSED)]}}, "$ref": "#/$defs/e"},
        [1.5, {"op": "+", "l": 1, "r": {"op": "*", "l": 2, "r": 3}}],
        [{"op": "-", "l": 1, "r": 2}],
    ),
    ({"title": "t", "description": "d", "default": 1, "examples": [1], "$comment": "c", "type": "integer", "x-own": 1}, [1], ["a"]),
]

# What must be refused, and a word that the sentence must have.
REFUSED = [
    (obj({"a": {"not": STR}}), "not at #/properties/a"),
    ({"if": STR, "then": {"minLength": 1}}, "if at #"),
    ({"type": "array", "contains": INT}, "contains"),
    ({"type": "array", "items": INT, "uniqueItems": True}, "uniqueItems"),
    ({"type": OBJ, "dependentRequired": 5}, "dependentRequired"),
    ({"type": "string", "pattern": "^(?:(?!a).)*$"}, "look-around"),
    ({"type": "string", "pattern": "^(?!a)b|c"}, "look-around"),
    ({"oneOf": [INT, NUM]}, "oneOf"),
    ({"oneOf": [{"type": "integer", "minimum": 1}, {"type": "integer", "maximum": 5}]}, "oneOf"),
    ({"oneOf": [obj({"a": INT}), obj({"b": INT})]}, "oneOf"),
    ({"oneOf": [obj({"k": {"enum": ["a", "b"]}}), obj({"k": {"enum": ["b", "c"]}})]}, "oneOf"),
    ({"oneOf": [obj({"k": {"const": "a"}}), obj({"j": {"const": "b"}})]}, "oneOf"),
    ({"type": "string", "pattern": "(?=a)b"}, "look-around"),
    ({"type": "string", "pattern": "(a)\\1"}, "back reference"),
    ({"type": "string", "pattern": "\\bword"}, "word boundary"),
    ({"type": "string", "pattern": "("}, "pattern"),
    ({"type": "string", "pattern": "[b-a]"}, "range"),
    ({"type": "string", "minLength": 3, "maxLength": 2}, "no value"),
    ({"type": "integer", "minimum": 3, "maximum": 2}, "no value"),
    (False, "no value"),
    ({"allOf": [STR, INT]}, "no value"),
    ({"enum": []}, "no value"),
    ({"$ref": "#"}, "$ref"),
    ({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}, "$ref"),
    ({"anyOf": [{"$ref": "#"}, STR]}, "$ref"),
    ({"$defs": {"a": obj({"x": {"$ref": "#/$defs/a"}})}, "$ref": "#/$defs/a"}, "no value"),
    ({"$ref": "#/$defs/none"}, "leads nowhere"),
    ({"$ref": "https://example.com/s.json"}, "leads out"),
    ({"type": "text"}, "type at #"),
    ({"type": 5}, "type at #"),
    ({"properties": [1]}, "properties"),
    ({"required": "a"}, "required"),
    ({"minLength": -1}, "minLength"),
    ({"minLength": "1"}, "minLength"),
    ({"type": "number", "multipleOf": 0.3}, "multipleOf"),
    ({"type": "integer", "multipleOf": 0}, "multipleOf"),
    ({"type": "number", "minimum": 1e16}, "minimum"),
    ({"anyOf": []}, "anyOf"),
    ({"type": OBJ, "minProperties": 3}, "minProperties"),
    ({"exclusiveMinimum": True, "minimum": 1}, "exclusiveMinimum"),
    ({"anyOf": [{"type": OBJ, "properties": {"a": {"const": i}}} for i in range(200)]}, "alternatives"),
    (5, "schema"),
    ([], "schema"),
    ({"type": "array", "minItems": 10**6}, "minItems"),
    ({"type": "string", "pattern": "(a|b)*a(a|b){20}"}, "pattern"),
    ({"unevaluatedProperties": False, "allOf": [obj({"a": INT})]}, "unevaluatedProperties"),
    ({"not": True}, "not at #"),
    ({"if": True, "then": STR}, "if at #"),
    ({"contains": True}, "contains"),
]


def word(rng, lo=0, hi=12):
    letters = string.ascii_letters + string.digits + ' _-"\\/\n\té€😀\x01\x7f'
    return "".join(rng.choice(letters) for _ in range(rng.randint(lo, hi)))


def random_schema(rng, depth=0):
    kind = rng.choice(["string", "integer", "number", "boolean", "null", "enum", "length", "pattern", "any"] + (["object", "array", "object", "array", "anyOf", "map", "tuple"] if depth < 3 else []))
    if kind in ("string", "boolean", "null", "integer"):
        return {"type": kind}
    if kind == "any":
        return rng.choice([True, {}, {"description": "anything"}])
    if kind == "number":
        lo, hi = sorted(round(rng.uniform(-1000, 1000), rng.randint(0, 4)) for _ in range(2))
        return rng.choice([{"type": "number"}, {"type": "number", "minimum": lo}, {"type": "number", "minimum": lo, "maximum": hi + 0.5}, {"type": "integer", "minimum": int(lo), "maximum": int(hi) + 1}])
    if kind == "enum":
        return {"enum": [rng.choice([word(rng), rng.randint(-99, 99), None, True, rng.random()]) for _ in range(rng.randint(1, 6))]}
    if kind == "length":
        lo = rng.randint(0, 20)
        return {"type": "string", "minLength": lo, "maxLength": lo + rng.randint(0, 20)}
    if kind == "pattern":
        return {"type": "string", "pattern": rng.choice(["^[a-z]{3}$", "^(yes|no)$", "^[0-9a-f]{4,8}$", "^x?y+z*$", "^\\d+(\\.\\d+)?$"])}
    if kind == "array":
        lo = rng.randint(0, 2)
        return {"type": "array", "items": random_schema(rng, depth + 1), **rng.choice([{}, {"minItems": lo}, {"minItems": lo, "maxItems": lo + rng.randint(0, 3)}])}
    if kind == "tuple":
        items = [random_schema(rng, depth + 1) for _ in range(rng.randint(1, 3))]
        return {"type": "array", "prefixItems": items, "items": rng.choice([False, STR]), "minItems": rng.randint(0, len(items))}
    if kind == "anyOf":
        return {"anyOf": [random_schema(rng, depth + 1) for _ in range(rng.randint(1, 3))]}
    if kind == "map":
        return {"type": OBJ, "additionalProperties": random_schema(rng, depth + 1)}
    names = list(dict.fromkeys(word(rng, 1, 8) for _ in range(rng.randint(0, 6))))
    return obj({n: random_schema(rng, depth + 1) for n in names}, [n for n in names if rng.random() < 0.6], **rng.choice([CLOSED, CLOSED, {}, {"additionalProperties": INT}]))


PATTERN_VALUES = {"^[a-z]{3}$": "abc", "^(yes|no)$": "no", "^[0-9a-f]{4,8}$": "0aff1", "^x?y+z*$": "yyz", "^\\d+(\\.\\d+)?$": "12.5"}


def value(schema, rng):
    """A value of a schema made by random_schema."""
    if not isinstance(schema, dict) or not set(schema) - {"description"}:
        return rng.choice([None, 1, "a", [1, {"x": None}], {"k": []}, -2.5])
    if "anyOf" in schema:
        return value(rng.choice(schema["anyOf"]), rng)
    if "enum" in schema:
        return rng.choice(schema["enum"])
    kind = schema["type"]
    if kind == "null":
        return None
    if kind == "boolean":
        return rng.random() < 0.5
    if kind in ("integer", "number"):
        lo = schema.get("minimum", -1000)
        hi = schema.get("maximum", lo + 100000)
        return rng.randint(int(lo) + (lo > int(lo)), int(hi) - (hi < int(hi))) if kind == "integer" or hi - lo > 3 else lo
    if kind == "string":
        if "pattern" in schema:
            return PATTERN_VALUES[schema["pattern"]]
        lo = schema.get("minLength", 0)
        return word(rng, lo, schema.get("maxLength", lo + 30))
    if kind == "array":
        prefix = schema.get("prefixItems", [])
        rest = schema.get("items", True)
        lo = schema.get("minItems", 0)
        hi = min(schema.get("maxItems", lo + 3), len(prefix) if rest is False else 99)
        return [value(prefix[i] if i < len(prefix) else rest, rng) for i in range(rng.randint(lo, max(lo, hi)))]
    out = {n: value(s, rng) for n, s in schema.get("properties", {}).items() if n in schema.get("required", []) or rng.random() < 0.5}
    more = schema.get("additionalProperties", True)
    if more is not False:
        for _ in range(rng.randint(0, 2)):
            name = "+" + word(rng, 0, 6)
            if name not in schema.get("properties", {}):
                out[name] = value(more, rng)
    return out


def random_schemas(n, seed=7):
    rng = random.Random(seed)
    return [random_schema(rng) for _ in range(n)]


KEYWORDS = {
    "type": lambda r, d: r.choice([r.choice(TYPES), r.sample(TYPES, 2)]),
    "properties": lambda r, d: {n: mixed_schema(r, d + 1) for n in r.sample(NAMES, r.randint(1, 3))},
    "required": lambda r, d: r.sample(NAMES, r.randint(0, 2)),
    "additionalProperties": lambda r, d: r.choice([False, False, True, mixed_schema(r, d + 1)]),
    "patternProperties": lambda r, d: {p: mixed_schema(r, d + 1) for p in r.sample(["^a", "b$", "x"], r.randint(1, 2))},
    "propertyNames": lambda r, d: r.choice([{"maxLength": 2}, {"pattern": "^[a-c]"}, {"enum": ["a", "b", "zz"]}]),
    "minProperties": lambda r, d: r.randint(0, 2),
    "maxProperties": lambda r, d: r.randint(0, 3),
    "items": lambda r, d: mixed_schema(r, d + 1),
    "uniqueItems": lambda r, d: r.random() < 0.5,
    "prefixItems": lambda r, d: [mixed_schema(r, d + 1) for _ in range(r.randint(1, 2))],
    "minItems": lambda r, d: r.randint(0, 2),
    "maxItems": lambda r, d: r.randint(0, 3),
    "minLength": lambda r, d: r.randint(0, 3),
    "maxLength": lambda r, d: r.randint(0, 4),
    "pattern": lambda r, d: r.choice(["a", "^[ab]+$", "b$", "^.?$", "^(x|yy)*$"]),
    "minimum": lambda r, d: r.choice([-5, 0, 1.5, 3, 10]),
    "maximum": lambda r, d: r.choice([-2.25, 0, 4, 7.5, 100]),
    "exclusiveMinimum": lambda r, d: r.choice([-1, 0, 0.5]),
    "exclusiveMaximum": lambda r, d: r.choice([1, 5.5, 20]),
    "multipleOf": lambda r, d: r.choice([1, 2, 5]),
    "enum": lambda r, d: r.sample([None, True, 1, 2, 2.5, -3, "a", "ab", "", "x"], r.randint(1, 5)),
    "const": lambda r, d: r.choice([1, "a", None, False]),
    "anyOf": lambda r, d: [mixed_schema(r, d + 1) for _ in range(r.randint(1, 3))],
    "oneOf": lambda r, d: [mixed_schema(r, d + 1) for _ in range(r.randint(1, 2))],
    "allOf": lambda r, d: [mixed_schema(r, d + 1) for _ in range(r.randint(1, 2))],
    "dependentRequired": lambda r, d: {r.choice(NAMES): r.sample(NAMES, r.randint(0, 2))},
    "dependentSchemas": lambda r, d: {r.choice(NAMES): mixed_schema(r, d + 2)},
    "$ref": lambda r, d: r.choice(["#/$defs/p", "#/$defs/q", "#"]),
}
TYPES = ["string", "integer", "number", "boolean", "null", "array", "object"]
NAMES = ["a", "b", "ab", "x", "é"]
OF_TYPE = {
    "string": ["minLength", "maxLength", "pattern", "enum"],
    "integer": ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "enum"],
    "number": ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"],
    "array": ["items", "prefixItems", "minItems", "maxItems", "uniqueItems"],
    "object": ["properties", "properties", "required", "additionalProperties", "patternProperties", "propertyNames", "minProperties", "maxProperties"],
}


def mixed_schema(rng, depth=0):
    """Keywords in any combination, also such as contradict each other."""
    if depth > 3 or rng.random() < 0.08:
        return rng.choice([True, True, False, {}, {"type": rng.choice(TYPES)}])
    out = {}
    if rng.random() < 0.7:
        out["type"] = rng.choice(TYPES)
        for key in rng.sample(OF_TYPE.get(out["type"], ["enum"]), k=min(rng.randint(0, 3), len(OF_TYPE.get(out["type"], [1])))):
            out[key] = KEYWORDS[key](rng, depth)
    for key in rng.sample(sorted(KEYWORDS), rng.choice([0, 0, 1, 1, 2])):
        out.setdefault(key, KEYWORDS[key](rng, depth))
    if depth == 0:
        out["$defs"] = {"p": mixed_schema(rng, 2), "q": mixed_schema(rng, 3)}
    return out


def mixed_value(rng, depth=0):
    kind = rng.randint(0, 5 if depth > 2 else 7)
    if kind == 6:
        return [mixed_value(rng, depth + 1) for _ in range(rng.randint(0, 3))]
    if kind == 7:
        return {n: mixed_value(rng, depth + 1) for n in NAMES + ["zz"] if rng.random() < 0.3}
    return rng.choice([None, True, False, rng.randint(-6, 12), rng.choice([0.5, 2.5, -3.25, 4.0]), rng.choice(["", "a", "b", "ab", "x", "yyx", "abcd", "é"])])
