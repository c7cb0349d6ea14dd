"""Chat templates and conversations for them."""


def TEMPLATES():
    return {"minimal": "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"}


CONVERSATIONS = {"one": {"messages": [{"role": "user", "content": "Hi"}]}}
