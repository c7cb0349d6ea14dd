"""Chat templates and conversations for them.

The templates here are written for this test after the structure of the ones that models ship (the same constructs, reduced
texts), so that each family's way of using Jinja is met. Qwen2.5's own and the default model's are read from where they lie.
QUIRE_CHAT_TEMPLATES may name a folder of *.jinja files that are checked as well."""

import json
import os
from pathlib import Path

SHARED = Path(os.environ.get("QUIRE_SHARED") or Path(__file__).resolve().parents[3] / "shared")

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "Weather of a <city> & \"more\": 'é'",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "description": "Name"},
                    "days": {"type": "integer", "default": 1.0},
                    "unit": {"type": "string", "enum": ["C", "F"]},
                    "opts": {"type": "array", "items": {"type": "object", "properties": {"x": {"type": ["string", "null"]}}}},
                },
                "required": ["city"],
            },
            "return": {"type": "string"},
        },
    },
    {"type": "function", "function": {"name": "noop", "description": "", "parameters": {"type": "object", "properties": {}}}},
]


def user(text):
    return {"role": "user", "content": text}


def assistant(text, **more):
    return {"role": "assistant", "content": text, **more}


def system(text):
    return {"role": "system", "content": text}


def call(name, arguments, **more):
    return {"type": "function", "id": "call00001", "function": {"name": name, "arguments": arguments}, **more}


def parts(*texts):
    return [{"type": "text", "text": t} for t in texts]


def conversations():
    short = [user("What is 2 + 2?")]
    turns = [system(" Be brief.\n"), user("Hi"), assistant("Hello! "), user("  How are\nyou? ")]
    tooled = [
        system("Use tools."),
        user("Weather in Ōsaka?"),
        assistant("", tool_calls=[call("get_weather", {"city": "Ōsaka", "days": 2, "f": 1.5, "n": None, "b": True})]),
        {"role": "tool", "content": '{"t": 21}', "name": "get_weather", "tool_call_id": "call00001"},
        assistant("21 degrees."),
        user("And Rome?"),
        assistant("Let me see.", tool_calls=[call("get_weather", {"city": "Rome"}), call("noop", {})]),
        {"role": "tool", "content": "rain", "name": "get_weather", "tool_call_id": "call00001"},
        {"role": "tool", "content": "", "name": "noop", "tool_call_id": "call00002"},
    ]
    thought = [
        user("Think."),
        assistant("<think>\nfirst\n</think>\n\nDone."),
        user("Again."),
        assistant("Sure.", reasoning_content="\nsecond\n"),
        user("More."),
    ]
    one_call = tooled[1:3] + [{**tooled[3], "content": {"t": 21, "ok": True}}]
    unicode_talk = [user("日本語 😀 é\u00a0x\u2028y"), assistant("ß \"quoted\" 'it' \\ \t"), user("<|im_end|> </s> {{ x }} {% y %}")]
    talks = {
        "short": {"messages": short},
        "turns": {"messages": turns},
        "turns, no prompt": {"messages": turns, "add_generation_prompt": False},
        "ends with assistant": {"messages": turns[:3], "add_generation_prompt": False},
        "tools": {"messages": short, "tools": TOOLS},
        "tools, system": {"messages": turns, "tools": TOOLS},
        "tool calls": {"messages": tooled, "tools": TOOLS},
        "tool calls, no tools": {"messages": tooled},
        "tool call ends": {"messages": tooled[:4], "tools": TOOLS},
        "one call": {"messages": one_call, "tools": TOOLS[:1]},
        "content null": {"messages": [user("x"), assistant(None, tool_calls=[call("noop", {})])], "tools": TOOLS[1:]},
        "string arguments": {"messages": [user("x"), assistant("", tool_calls=[call("noop", '{"a": 1}')])], "tools": TOOLS},
        "thought": {"messages": thought},
        "thinking on": {"messages": thought, "enable_thinking": True, "thinking": True},
        "thinking off": {"messages": thought, "enable_thinking": False, "thinking": False},
        "unicode": {"messages": unicode_talk},
        "parts": {"messages": [user(parts("one", " two ")), assistant("ok"), user(parts("three"))]},
        "parts, system": {"messages": [{"role": "system", "content": parts("S")}, user(parts("a"))]},
        "image": {"messages": [user([{"type": "image"}, {"type": "text", "text": "What is it?"}])]},
        "two users": {"messages": [user("a"), user("b")]},
        "assistant first": {"messages": [assistant("a"), user("b")]},
        "two systems": {"messages": [system("a"), system("b"), user("c")]},
        "only system": {"messages": [system("a")]},
        "unknown role": {"messages": [{"role": "wizard", "content": "x"}]},
        "developer": {"messages": [{"role": "developer", "content": "Dev."}, user("x")]},
        "no content": {"messages": [{"role": "user"}]},
        "documents": {"messages": short, "documents": [{"title": "T", "text": "body", "id": 1}, {"title": "U", "text": "more"}]},
        "dated": {"messages": turns, "date_string": "26 Jul 2024", "custom_tools": None, "builtin_tools": ["brave_search"]},
        "in user message": {"messages": short, "tools": TOOLS, "tools_in_user_message": False, "date_string": "1 Jan 2025"},
        "effort": {"messages": turns, "tools": TOOLS, "reasoning_effort": "high", "model_identity": "You are quire."},
    }
    return {name: {"add_generation_prompt": True, **talk} for name, talk in talks.items()}


CONVERSATIONS = conversations()

QWEN3 = r"""
{%- if tools %}
    {{- '<|im_start|>system\n' }}
    {%- if messages[0].role == 'system' %}
        {{- messages[0].content + '\n\n' }}
    {%- endif %}
    {{- "# Tools\n\n<tools>" }}
    {%- for tool in tools %}
        {{- "\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\n</tools>\n{\"name\": <function-name>}<|im_end|>\n" }}
{%- else %}
    {%- if messages[0].role == 'system' %}
        {{- '<|im_start|>system\n' + messages[0].content + '<|im_end|>\n' }}
    {%- endif %}
{%- endif %}
{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step_tool and message.role == "user" and message.content is string and not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.multi_step_tool = false %}
        {%- set ns.last_query_index = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.content is string %}
        {%- set content = message.content %}
    {%- else %}
        {%- set content = '' %}
    {%- endif %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\n' + content + '<|im_end|>' + '\n' }}
    {%- elif message.role == "assistant" %}
        {%- set reasoning_content = '' %}
        {%- if message.reasoning_content is string %}
            {%- set reasoning_content = message.reasoning_content %}
        {%- else %}
            {%- if '</think>' in content %}
                {%- set reasoning_content = content.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') %}
                {%- set content = content.split('</think>')[-1].lstrip('\n') %}
            {%- endif %}
        {%- endif %}
        {%- if loop.index0 > ns.last_query_index %}
            {%- if loop.last or (not loop.last and reasoning_content) %}
                {{- '<|im_start|>' + message.role + '\n<think>\n' + reasoning_content.strip('\n') + '\n</think>\n\n' + content.lstrip('\n') }}
            {%- else %}
                {{- '<|im_start|>' + message.role + '\n' + content }}
            {%- endif %}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\n' + content }}
        {%- endif %}
        {%- if message.tool_calls %}
            {%- for tool_call in message.tool_calls %}
                {%- if (loop.first and content) or (not loop.first) %}
                    {{- '\n' }}
                {%- endif %}
                {%- if tool_call.function %}
                    {%- set tool_call = tool_call.function %}
                {%- endif %}
                {{- '<tool_call>\n{"name": "' }}
                {{- tool_call.name }}
                {{- '", "arguments": ' }}
                {%- if tool_call.arguments is string %}
                    {{- tool_call.arguments }}
                {%- else %}
                    {{- tool_call.arguments | tojson }}
                {%- endif %}
                {{- '}\n</tool_call>' }}
            {%- endfor %}
        {%- endif %}
        {{- '<|im_end|>\n' }}
    {%- elif message.role == "tool" %}
        {%- if loop.first or (messages[loop.index0 - 1].role != "tool") %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\n<tool_response>\n' }}
        {{- content }}
        {{- '\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}
            {{- '<|im_end|>\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\n\n</think>\n\n' }}
    {%- endif %}
{%- endif %}
"""

LLAMA3 = r"""
{{- bos_token }}
{%- if custom_tools is defined %}
    {%- set tools = custom_tools %}
{%- endif %}
{%- if not tools_in_user_message is defined %}
    {%- set tools_in_user_message = true %}
{%- endif %}
{%- if not date_string is defined %}
    {%- if strftime_now is defined %}
        {%- set date_string = strftime_now("%d %b %Y") %}
    {%- else %}
        {%- set date_string = "26 Jul 2024" %}
    {%- endif %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}

{#- The system message is needed further down. #}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\n\n" }}
{%- if builtin_tools is defined or tools is not none %}
    {{- "Environment: ipython\n" }}
{%- endif %}
{%- if builtin_tools is defined %}
    {{- "Tools: " + builtin_tools | reject('equalto', 'code_interpreter') | join(", ") + "\n\n"}}
{%- endif %}
{{- "Today Date: " + date_string + "\n\n" }}
{%- if tools is not none and not tools_in_user_message %}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\n\n" }}
    {%- endfor %}
{%- endif %}
{{- system_message }}
{{- "<|eot_id|>" }}
{%- if tools_in_user_message and not tools is none %}
    {%- if messages | length != 0 %}
        {%- set first_user_message = messages[0]['content']|trim %}
        {%- set messages = messages[1:] %}
    {%- else %}
        {{- raise_exception("Cannot put tools in the first user message when there's no first user message!") }}
{%- endif %}
    {{- '<|start_header_id|>user<|end_header_id|>\n\n' -}}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\n\n" }}
    {%- endfor %}
    {{- first_user_message + "<|eot_id|>"}}
{%- endif %}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls|length == 1 %}
            {{- raise_exception("This model only supports single tool-calls at once!") }}
        {%- endif %}
        {%- set tool_call = message.tool_calls[0].function %}
        {%- if builtin_tools is defined and tool_call.name in builtin_tools %}
            {{- tool_call.name + ".call(" }}
            {%- for arg_name, arg_val in tool_call.arguments | items %}
                {{- arg_name + '="' + arg_val + '"' }}
                {%- if not loop.last %}
                    {{- ", " }}
                {%- endif %}
                {%- endfor %}
            {{- ")" }}
        {%- else  %}
            {{- '<|start_header_id|>assistant<|end_header_id|>\n\n' -}}
            {{- '{"name": "' + tool_call.name + '", ' }}
            {{- '"parameters": ' }}
            {{- tool_call.arguments | tojson }}
            {{- "}" }}
        {%- endif %}
        {{- "<|eot_id|>" }}
    {%- elif message.role == "tool" or message.role == "ipython" %}
        {{- "<|start_header_id|>ipython<|end_header_id|>\n\n" }}
        {%- if message.content is mapping or message.content is iterable %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
        {{- "<|eot_id|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}
{%- endif %}
"""

MISTRAL = r"""
{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}
{%- set user_messages = loop_messages | selectattr("role", "equalto", "user") | list %}
{%- set ns = namespace() %}
{%- set ns.index = 0 %}
{%- for message in loop_messages %}
    {%- if not (message.role == "tool" or message.role == "tool_results" or (message.tool_calls is defined and message.tool_calls is not none)) %}
        {%- if (message["role"] == "user") != (ns.index % 2 == 0) %}
            {{- raise_exception("After the optional system message, conversation roles must alternate user/assistant/user/assistant/...") }}
        {%- endif %}
        {%- set ns.index = ns.index + 1 %}
    {%- endif %}
{%- endfor %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message["role"] == "user" %}
        {%- if tools is not none and (message == user_messages[-1]) %}
            {{- "[AVAILABLE_TOOLS] [" }}
            {%- for tool in tools %}
                {%- set tool = tool.function %}
                {{- '{"type": "function", "function": {' }}
                {%- for key, val in tool.items() if key != "return" %}
                    {%- if val is string %}
                        {{- '"' + key + '": "' + val + '"' }}
                    {%- else %}
                        {{- '"' + key + '": ' + val|tojson }}
                    {%- endif %}
                    {%- if not loop.last %}
                        {{- ", " }}
                    {%- endif %}
                {%- endfor %}
                {{- "}}" }}
                {%- if not loop.last %}
                    {{- ", " }}
                {%- else %}
                    {{- "]" }}
                {%- endif %}
            {%- endfor %}
            {{- "[/AVAILABLE_TOOLS]" }}
            {%- endif %}
        {%- if loop.last and system_message is defined %}
            {{- "[INST] " + system_message + "\n\n" + message["content"] + "[/INST]" }}
        {%- else %}
            {{- "[INST] " + message["content"] + "[/INST]" }}
        {%- endif %}
    {%- elif message.tool_calls is defined and message.tool_calls is not none %}
        {{- "[TOOL_CALLS] [" }}
        {%- for tool_call in message.tool_calls %}
            {%- set out = tool_call.function|tojson %}
            {{- out[:-1] }}
            {%- if not tool_call.id is defined or tool_call.id|length != 9 %}
                {{- raise_exception("Tool call IDs should be alphanumeric strings with length 9!") }}
            {%- endif %}
            {{- ', "id": "' + tool_call.id + '"}' }}
            {%- if not loop.last %}
                {{- ", " }}
            {%- else %}
                {{- "]" + eos_token }}
            {%- endif %}
        {%- endfor %}
    {%- elif message["role"] == "assistant" %}
        {{- " " + message["content"]|trim + eos_token}}
    {%- elif message["role"] == "tool_results" or message["role"] == "tool" %}
        {%- if message.content is defined and message.content.content is defined %}
            {%- set content = message.content.content %}
        {%- else %}
            {%- set content = message.content %}
        {%- endif %}
        {{- '[TOOL_RESULTS] {"content": ' + content|string + ", " }}
        {{- '"call_id": "' + message.tool_call_id + '"}[/TOOL_RESULTS]' }}
    {%- else %}
        {{- raise_exception("Only user and assistant roles are supported, with the exception of an initial optional system message!") }}
    {%- endif %}
{%- endfor %}
"""

GEMMA = r"""
{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- if messages[0]['content'] is string -%}
        {%- set first_user_prefix = messages[0]['content'] + '\n\n' -%}
    {%- else -%}
        {%- set first_user_prefix = messages[0]['content'][0]['text'] + '\n\n' -%}
    {%- endif -%}
    {%- set loop_messages = messages[1:] -%}
{%- else -%}
    {%- set first_user_prefix = "" -%}
    {%- set loop_messages = messages -%}
{%- endif -%}
{%- for message in loop_messages -%}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}
        {{ raise_exception("Conversation roles must alternate user/assistant/user/assistant/...") }}
    {%- endif -%}
    {%- if (message['role'] == 'assistant') -%}
        {%- set role = "model" -%}
    {%- else -%}
        {%- set role = message['role'] -%}
    {%- endif -%}
    {{ '<start_of_turn>' + role + '\n' + (first_user_prefix if loop.first else "") }}
    {%- if message['content'] is string -%}
        {{ message['content'] | trim }}
    {%- elif message['content'] is iterable -%}
        {%- for item in message['content'] -%}
            {%- if item['type'] == 'image' -%}
                {{ '<start_of_image>' }}
            {%- elif item['type'] == 'text' -%}
                {{ item['text'] | trim }}
            {%- endif -%}
        {%- endfor -%}
    {%- else -%}
        {{ raise_exception("Invalid content type") }}
    {%- endif -%}
    {{ '<end_of_turn>\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{'<start_of_turn>model\n'}}
{%- endif -%}
"""

DEEPSEEK = (
    "{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}"
    "{% set ns = namespace(is_first=false, is_tool=false, is_output_first=true, system_prompt='', is_first_sp=true) %}"
    "{%- for message in messages %}{%- if message['role'] == 'system' %}{%- if ns.is_first_sp %}"
    "{% set ns.system_prompt = ns.system_prompt + message['content'] %}{% set ns.is_first_sp = false %}{%- else %}"
    "{% set ns.system_prompt = ns.system_prompt + '\\n\\n' + message['content'] %}{%- endif %}{%- endif %}{%- endfor %}"
    "{{ bos_token }}{{ ns.system_prompt }}{%- for message in messages %}{%- if message['role'] == 'user' %}"
    "{%- set ns.is_tool = false -%}{{'<｜User｜>' + message['content']}}{%- endif %}"
    "{%- if message['role'] == 'assistant' and 'tool_calls' in message %}{%- set ns.is_tool = false -%}"
    "{%- for tool in message['tool_calls'] %}{%- if not ns.is_first %}{%- if message['content'] is none %}"
    "{{'<｜Assistant｜><｜calls｜>' + tool['type'] + tool['function']['name'] + '\\n' + '```json' + '\\n' + tool['function']['arguments']|string + '\\n' + '```'}}"
    "{%- else %}{{'<｜Assistant｜>' + message['content'] + '<｜calls｜>' + tool['function']['name']}}{%- endif %}"
    "{%- set ns.is_first = true -%}{%- else %}{{'\\n' + '<｜call｜>' + tool['type'] + tool['function']['name']}}{%- endif %}{%- endfor %}"
    "{{'<｜end｜>'}}{%- endif %}{%- if message['role'] == 'assistant' and 'tool_calls' not in message %}{%- if ns.is_tool %}"
    "{{'<｜outs｜>' + message['content'] + '<｜end｜>'}}{%- set ns.is_tool = false -%}{%- else %}"
    "{% set content = message['content'] %}{% if '</think>' in content %}{% set content = content.split('</think>')[-1] %}{% endif %}"
    "{{'<｜Assistant｜>' + content + '<｜end｜>'}}{%- endif %}{%- endif %}{%- if message['role'] == 'tool' %}"
    "{%- set ns.is_tool = true -%}{%- if ns.is_output_first %}{{'<｜outputs｜><｜output｜>' + message['content'] + '<｜/output｜>'}}"
    "{%- set ns.is_output_first = false %}{%- else %}{{'\\n<｜output｜>' + message['content'] + '<｜/output｜>'}}{%- endif %}{%- endif %}"
    "{%- endfor -%}{% if ns.is_tool %}{{'<｜outs｜>'}}{% endif %}"
    "{% if add_generation_prompt and not ns.is_tool %}{{'<｜Assistant｜><think>\\n'}}{% endif %}"
)

COMMAND_R = r"""
{%- macro json_to_python_type(json_spec) %}
{%- set basic_type_map = {"string": "str", "number": "float", "integer": "int", "boolean": "bool"} %}
{%- if basic_type_map[json_spec.type] is defined %}
{{- basic_type_map[json_spec.type] }}
{%- elif json_spec.type == "array" %}
{{- "List[" + json_to_python_type(json_spec.items) + "]"}}
{%- elif json_spec.type == "object" %}
{{- "Dict[str, " + json_to_python_type(json_spec.additionalProperties) + ']'}}
{%- elif json_spec.type is iterable %}
{{- "Union[" }}
{%- for t in json_spec.type %}
{{- json_to_python_type({"type": t}) }}
{%- if not loop.last %}
{{- "," }}
{%- endif %}
{%- endfor %}
{{- "]" }}
{%- else %}
{{- "Any" }}
{%- endif %}
{%- endmacro %}
{%- macro parameters(tool) -%}
{%- set ns = namespace(first=true, out='') -%}
{%- for name, spec in tool.parameters.properties|dictsort if name != 'opts' -%}
{%- if not ns.first %}, {% endif %}{% set ns.first = false %}
{{- name }}: {% if name not in tool.parameters.required|default([]) %}Optional[{{ json_to_python_type(spec) }}] = None{% else %}{{ json_to_python_type(spec) }}{% endif %}
{%- endfor -%}
{%- endmacro -%}
{{ bos_token }}{% if messages[0].role == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = messages[0].content %}{% else %}{% set loop_messages = messages %}{% set system_message = 'Preamble' %}{% endif %}
<|SYSTEM|>{{ system_message|trim }}
{% if tools %}
{% for tool in tools %}{% if loop.index0 != 0 %}

{% endif %}
```python
def {{ tool.function.name }}({{ parameters(tool.function) }}) -> List[Dict]:
    '''{{ tool.function.description|indent(4) }}{% if tool.function.parameters.properties|length != 0 %}

    Args:
        {% for param_name, param_fields in tool.function.parameters.properties.items() %}
        {% if param_name != 'opts' %}
{{ param_name }} ({{ param_fields.type }}): {{ param_fields.description|default('none', true)|capitalize }}
        {% endif %}
        {% endfor %}
{% endif %}
    '''
    pass
```{% endfor %}
{% endif %}
{% for message in loop_messages %}
{%- if message.role|lower == 'user' %}<|USER|>{{ message.content.strip() }}<|END|>
{%- elif message.role == 'assistant' and message.tool_calls %}<|CHATBOT|>Action: ```json
[
{% for call in message.tool_calls %}
{{ '{' }}
    "tool_name": "{{ call.function.name }}",
    "parameters": {{ call.function.arguments|tojson(indent=4)|indent(4) }}
{{ '}' }}{% if not loop.last %},{% endif %}

{% endfor %}
]```<|END|>
{%- elif message.role == 'assistant' %}<|CHATBOT|>{{ message.content|trim }}<|END|>
{%- elif message.role == 'tool' %}<|RESULT|>{{ loop.index0 }}
{%- for key, value in ({'text': message.content} if message.content is string else message.content)|items %}
 {{ key|title }}: {{ value|string|upper|replace('A', 'a', 1) }}
{%- endfor %}<|END|>
{%- endif %}
{%- endfor %}
{%- if documents %}
{% for doc in documents %}
Document: {{ loop.index0 }}
{% for key, value in doc.items() %}
{{ key }}: {{ value }}
{% endfor %}
{% endfor %}
{% endif %}
{%- if add_generation_prompt %}<|CHATBOT|>{% endif %}
"""

GRANITE = r"""
{%- if messages[0]['role'] == 'system' %}
  {%- set system_message = messages[0]['content'] %}
  {%- set loop_messages = messages[1:] %}
{%- else %}
  {%- set system_message = "Knowledge Cutoff Date: April 2024." %}
  {%- if tools and documents %}
    {%- set system_message = system_message + " Tools and documents." %}
  {%- elif tools %}
    {%- set system_message = system_message + " Tools." %}
  {%- elif documents %}
    {%- set system_message = system_message + " Documents." %}
  {%- elif thinking %}
    {%- set system_message = system_message + " Thoughts." %}
  {%- endif %}
  {%- if 'citations' in controls and documents %}
    {%- set system_message = system_message + ' Citations.' %}
  {%- endif %}
  {%- set loop_messages = messages %}
{%- endif %}
{{- '<|start_of_role|>system<|end_of_role|>' + system_message + '<|end_of_text|>\n' }}
{%- if tools %}
  {{- '<|start_of_role|>tools<|end_of_role|>' }}
  {{- tools | tojson(indent=4) }}
  {{- '<|end_of_text|>\n' }}
{%- endif %}
{%- if documents %}
  {{- '<|start_of_role|>documents<|end_of_role|>' }}
  {%- for document in documents %}
    {{- 'Document ' + loop.index0 | string + '\n' }}
    {{- document['text'] }}
    {%- if not loop.last %}
      {{- '\n\n'}}
    {%- endif%}
  {%- endfor %}
  {{- '<|end_of_text|>\n' }}
{%- endif %}
{%- for message in loop_messages %}
  {{- '<|start_of_role|>' + message['role'] + '<|end_of_role|>' + message['content'] + '<|end_of_text|>\n' }}
  {%- if loop.last and add_generation_prompt %}
    {{- '<|start_of_role|>assistant' }}
    {%- if controls %}
      {{- ' ' + controls | tojson()}}
    {%- endif %}
    {{- '<|end_of_role|>' }}
  {%- endif %}
{%- endfor %}
"""

PHI = (
    "{% for message in messages %}{% if message['role'] == 'system' and message['content'] %}"
    "{{'<|system|>\n' + message['content'] + '<|end|>\n'}}{% elif message['role'] == 'user' %}"
    "{{'<|user|>\n' + message['content'] + '<|end|>\n'}}{% elif message['role'] == 'assistant' %}"
    "{% generation %}{{'<|assistant|>\n' + message['content'] + '<|end|>\n'}}{% endgeneration %}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% else %}{{ eos_token }}{% endif %}"
)

CHATML = (
    "{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}"
    "{% for message in messages %}\n{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}\n{% endfor %}\n"
    "{% if add_generation_prompt %}\n{{ '<|im_start|>assistant\n' }}\n{% endif %}\n"
)

ZEPHYR = """{% for message in messages %}
{% if message['role'] == 'user' %}
{{ '<|user|>
' + message['content'] + eos_token }}
{% elif message['role'] == 'system' %}
{{ '<|system|>
' + message['content'] + eos_token }}
{% elif message['role'] == 'assistant' %}
{{ '<|assistant|>
'  + message['content'] + eos_token }}
{% endif %}
{% if loop.last and add_generation_prompt %}
{{ '<|assistant|>' }}
{% endif %}
{% endfor %}"""

GPT_STYLE = r"""
{%- macro render_typescript_type(param_spec, required_params, is_nullable=false) -%}
    {%- if param_spec.type == "array" -%}
        {%- if param_spec['items'] -%}
            {%- if param_spec['items']['type'] == "string" -%}
                {{- "string[]" }}
            {%- elif param_spec['items']['type'] == "number" -%}
                {{- "number[]" }}
            {%- else -%}
                {%- set inner_type = render_typescript_type(param_spec['items'], required_params) -%}
                {%- if inner_type == "object | object" or inner_type|length > 50 -%}
                    {{- "any[]" }}
                {%- else -%}
                    {{- inner_type + "[]" }}
                {%- endif -%}
            {%- endif -%}
        {%- endif -%}
    {%- elif param_spec.type is defined and param_spec.type is iterable and param_spec.type is not string and param_spec.type is not mapping and param_spec.type[0] is defined -%}
        {{- param_spec.type | join(" | ") }}
    {%- elif param_spec.type == "string" -%}
        {%- if param_spec.enum -%}
            {{- '"' + param_spec.enum|join('" | "') + '"' -}}
        {%- else -%}
            {{- "string" }}
        {%- endif -%}
    {%- elif param_spec.type == "integer" -%}
        {{- "number" }}
    {%- elif param_spec.type == "object" -%}
        {{- "{\n" }}
        {%- for prop_name, prop_spec in param_spec.properties.items() -%}
            {{- prop_name -}}
            {%- if prop_name not in (param_spec.required or []) -%}
                {{- "?" }}
            {%- endif -%}
            {{- ": " }}
            {{ render_typescript_type(prop_spec, param_spec.required or []) }}
            {%- if not loop.last -%}
                {{-", " }}
            {%- endif -%}
        {%- endfor -%}
        {{- "}" }}
    {%- else -%}
        {{- "any" }}
    {%- endif -%}
{%- endmacro -%}
{%- macro render_tool_namespace(namespace_name, tools) -%}
    {{- "namespace " + namespace_name + " {\n\n" }}
    {%- for tool in tools %}
        {%- set tool = tool.function %}
        {{- "// " + tool.description + "\n" }}
        {{- "type "+ tool.name + " = " }}
        {%- if tool.parameters and tool.parameters.properties %}
            {{- "(_: {\n" }}
            {%- for param_name, param_spec in tool.parameters.properties.items() %}
                {%- if param_spec.description %}
                    {{- "// " + param_spec.description + "\n" }}
                {%- endif %}
                {{- param_name }}
                {{- "?: " if param_name not in (tool.parameters.required or []) else ": " }}
                {{- render_typescript_type(param_spec, tool.parameters.required or []) }}
                {%- if param_spec.default is defined -%}
                    {%- if param_spec.oneOf %}
                        {{- "// default: " + param_spec.default }}
                    {%- else %}
                        {{- ", // default: " + param_spec.default|tojson }}
                    {%- endif -%}
                {%- endif -%}
                {%- if not loop.last %}
                    {{- ",\n" }}
                {%- else %}
                    {{- "\n" }}
                {%- endif -%}
            {%- endfor %}
            {{- "}) => any;\n\n" }}
        {%- else -%}
            {{- "() => any;\n\n" }}
        {%- endif -%}
    {%- endfor %}
    {{- "} // namespace " + namespace_name }}
{%- endmacro -%}
{%- if model_identity is not defined %}
    {%- set model_identity = "You are a model." %}
{%- endif %}
{{- "<|start|>system<|message|>" + model_identity + "\nReasoning: " + (reasoning_effort or "medium") + "<|end|>" }}
{%- if messages[0].role in ("developer", "system") %}
    {%- set developer_message = messages[0].content %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set developer_message = "" %}
    {%- set loop_messages = messages %}
{%- endif %}
{%- if developer_message or tools %}
    {{- developer_message }}
    {%- if tools -%}
        {{- render_tool_namespace("functions", tools) }}
    {%- endif -%}
{%- endif %}
{%- set last_tool_call = namespace(name=none) %}
{%- for message in loop_messages -%}
    {%- if message.role == 'assistant' -%}
        {%- if "content" in message and message.content is string %}
            {%- if "<|channel|>analysis" in message.content %}
                {{- raise_exception("No channel tags in content") }}
            {%- endif %}
        {%- endif %}
        {%- if "tool_calls" in message %}
            {%- set future_final_message = namespace(found=false) %}
            {%- for future_message in loop_messages[loop.index:] %}
                {%- if future_message.role == 'assistant' and "tool_calls" not in future_message %}
                    {%- set future_final_message.found = true %}
                {%- endif %}
            {%- endfor %}
            {%- set tool_call = message.tool_calls[0] %}
            {%- if tool_call.function %}
                {%- set tool_call = tool_call.function %}
            {%- endif %}
            {%- if message.content and not future_final_message.found %}
                {{- "<|start|>assistant<|channel|>analysis<|message|>" + message.content + "<|end|>" }}
            {%- endif %}
            {{- "<|start|>assistant to=functions." + tool_call.name + "<|message|>" + tool_call.arguments|tojson + "<|call|>" }}
            {%- set last_tool_call.name = tool_call.name %}
        {%- elif loop.last and not add_generation_prompt %}
            {{- "<|start|>assistant<|channel|>final<|message|>" + message.content + "<|return|>" }}
        {%- else %}
            {{- "<|start|>assistant<|channel|>final<|message|>" + message.content + "<|end|>" }}
            {%- set last_tool_call.name = none %}
        {%- endif %}
    {%- elif message.role == 'tool' -%}
        {%- if last_tool_call.name is none %}
            {{- raise_exception("Message has tool role, but there was no previous assistant message with a tool call!") }}
        {%- endif %}
        {{- "<|start|>functions." + last_tool_call.name + "<|message|>" + message.content|tojson + "<|end|>" }}
    {%- elif message.role == 'user' -%}
        {{- "<|start|>user<|message|>" + message.content + "<|end|>" }}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
<|start|>assistant
{%- endif -%}
"""


# Llama 2: the system text inside of the first user turn, roles in strict turn.
LLAMA2 = """{% if messages[0]['role'] == 'system' %}{% set talk = messages[1:] %}{% set system = messages[0]['content'] %}\
{% else %}{% set talk = messages %}{% set system = false %}{% endif %}
{% for message in talk %}
{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
{{ raise_exception('user and assistant must take turns') }}
{% endif %}
{% if loop.index0 == 0 and system != false %}
{% set content = '<<SYS>>\\n' + system + '\\n<</SYS>>\\n\\n' + message['content'] %}
{% else %}
{% set content = message['content'] %}
{% endif %}
{% if message['role'] == 'user' %}
{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}
{% elif message['role'] == 'assistant' %}
{{ ' ' + content.strip() + ' ' + eos_token }}
{% endif %}
{% endfor %}"""

# Vicuna: roles as words, everything in one line.
VICUNA = """{%- set ns = namespace(first=true) -%}
{%- for message in messages -%}
    {%- if message.role == 'system' and loop.first -%}
        {{- message.content ~ ' ' -}}
    {%- elif message.role in ['user', 'assistant'] -%}
        {{- ('' if ns.first else ' ' if message.role == 'assistant' else eos_token) ~ message.role | upper ~ ': ' ~ message.content | trim -}}
        {%- set ns.first = false -%}
    {%- else -%}
        {{- raise_exception('role ' ~ message.role ~ ' at ' ~ loop.index ~ ' is none of Vicuna') -}}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt %} ASSISTANT:{% endif -%}"""

# Tulu and OLMo 2: the answer is marked for training, eos behind all but the last one's newline.
TULU = """{{ bos_token }}{% for message in messages %}
{% if message['role'] == 'system' %}
{{ '<|system|>\\n' + message['content'] + '\\n' }}
{% elif message['role'] == 'user' %}
{{ '<|user|>\\n' + message['content'] + '\\n' }}
{% elif message['role'] == 'assistant' %}
{{ '<|assistant|>\\n' }}{% generation %}{{ message['content'] + eos_token }}{% endgeneration %}
{% if not loop.last %}
{{ '\\n' }}
{% endif %}
{% else %}
{% continue %}
{% endif %}
{% if loop.last and add_generation_prompt %}
{{ '<|assistant|>\\n' }}
{% endif %}
{% endfor %}"""

# Hermes: tools as Python signatures by a macro, calls and answers in tags, thoughts of earlier turns cut off.
HERMES = """{%- macro kind(spec) -%}
{%- if spec.type == 'array' -%}list[{{ kind(spec['items']) if spec['items'] is defined else 'Any' }}]
{%- elif spec.type == 'object' -%}dict
{%- else -%}{{ {'string': 'str', 'integer': 'int', 'number': 'float', 'boolean': 'bool'}.get(spec.type, 'Any') }}
{%- endif -%}
{%- endmacro -%}
{{- bos_token }}
{%- if tools is iterable and tools | length > 0 %}
{{- '<|im_start|>system\\nYou may call functions. Signatures are in <tools></tools>:\\n<tools>' }}
{%- for tool in tools %}
{%- set f = tool.function if tool.function is defined else tool %}
{{- '\\n' ~ {'type': 'function', 'name': f.name} | tojson ~ ' def ' ~ f.name ~ '(' }}
{%- for name, spec in f.parameters.properties.items() %}
{{- name ~ ': ' ~ kind(spec) ~ ('' if name in f.parameters.required | default([]) else ' = None') }}
{%- if not loop.last %}, {% endif %}
{%- endfor %}
{{- ')' ~ ('  # ' ~ f.description.split('\\n')[0] if f.description else '') }}
{%- endfor %}
{{- '\\n</tools><|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
{%- if message.role == 'assistant' and message.tool_calls %}
{{- '<|im_start|>assistant' }}
{%- for call in message.tool_calls %}
{%- set call = call.function if call.function is defined else call %}
{{- '\\n<tool_call>\\n' ~ {'name': call.name, 'arguments': call.arguments} | tojson(indent=2) ~ '\\n</tool_call>' }}
{%- endfor %}
{{- '<|im_end|>\\n' }}
{%- elif message.role == 'tool' %}
{%- if loop.previtem is not defined or loop.previtem.role != 'tool' %}{{- '<|im_start|>tool\\n' }}{% endif %}
{{- '<tool_response>' ~ message.content ~ '</tool_response>\\n' }}
{%- if loop.last or loop.nextitem.role != 'tool' %}{{- '<|im_end|>' }}{% endif %}
{%- else %}
{%- set content = message.content %}
{%- if message.role == 'assistant' and not loop.last and '</think>' in content %}
{%- set content = content.split('</think>')[-1].lstrip('\\n') %}
{%- endif %}
{{- '<|im_start|>' ~ message.role ~ '\\n' ~ content ~ '<|im_end|>\\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' ~ ('<think>\\n' if enable_thinking | default(false) else '') }}{% endif %}"""

# Jamba and others: documents with their keys in order, a date, parts of a content put together.
DOCUMENTS = """{%- set stop = '<|eom|>' -%}
{{- bos_token ~ '<|bom|><|system|>' ~ (messages | selectattr('role', 'equalto', 'system') | map(attribute='content') | join('\\n')) ~ stop -}}
{%- if documents -%}
<|bom|><|documents|>
{%- for document in documents -%}
{%- for key, value in document.items() | sort -%}{{ '\\n' if not loop.first }}{{ key | title }}: {{ value }}{%- endfor -%}
{{- '\\n***' if not loop.last -}}
{%- endfor -%}{{ stop }}
{%- endif -%}
{%- for message in messages if message.role != 'system' -%}
<|bom|><|{{ message.role }}|>
{%- if message.content is string -%}{{ ' ' ~ message.content }}
{%- elif message.content is iterable and message.content is not none -%}
{%- for part in message.content if part.type == 'text' -%}{{ ' ' ~ part.text }}{%- endfor -%}
{%- elif message.tool_calls is defined -%}
{%- for call in message.tool_calls -%}{{ call | tojson }}{%- if not loop.last %}; {% endif -%}{%- endfor -%}
{%- endif -%}
{{- stop -}}
{%- endfor -%}
{%- if add_generation_prompt -%}<|bom|><|assistant|>{%- endif -%}"""


def TEMPLATES():
    """name -> text"""
    found = {
        "qwen3": QWEN3,
        "llama3": LLAMA3,
        "mistral": MISTRAL,
        "gemma": GEMMA,
        "deepseek": DEEPSEEK,
        "command-r": COMMAND_R,
        "granite": GRANITE,
        "phi": PHI,
        "chatml": CHATML,
        "zephyr": ZEPHYR,
        "gpt": GPT_STYLE,
        "llama2": LLAMA2,
        "vicuna": VICUNA,
        "tulu": TULU,
        "hermes": HERMES,
        "documents": DOCUMENTS,
    }
    config = SHARED / "tokenizers" / "qwen2.5" / "tokenizer_config.json"
    if config.exists():
        found["qwen2.5"] = json.loads(config.read_text())["chat_template"]
    folder = os.environ.get("QUIRE_CHAT_TEMPLATES")
    for path in sorted(Path(folder).glob("**/*.jinja")) if folder else []:
        found[path.name] = path.read_text()
    return found
