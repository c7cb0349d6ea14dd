"""What the tests of the chat page share: Chromium, and a stand-in for the server that says what a test wants."""

import json
import os
import shutil
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


def open_browser(downloads=None, narrow=False):
    """Chromium under chromedriver; the test is skipped where one of them is missing."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed: pip install selenium")
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not chromium or not driver:
        pytest.skip("Chromium is not here: tools/deps.sh page")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in ("--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1280,860"):
        options.add_argument(argument)
    if os.geteuid() == 0:
        options.add_argument("--no-sandbox")  # Chromium has none for root
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    options.add_experimental_option("prefs", {"download.default_directory": str(downloads)} if downloads else {})
    if narrow:
        metrics = {"width": 360, "height": 740, "pixelRatio": 2, "touch": True}
        options.add_experimental_option("mobileEmulation", {"deviceMetrics": metrics})
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))


def delta(**parts):
    return {"choices": [{"index": 0, "delta": parts, "finish_reason": None}]}


def stream_of(text, size=7):
    """The chunks of a streamed answer with this text."""
    pieces = [text[i : i + size] for i in range(0, len(text), size)]
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    usage = {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": len(pieces), "total_tokens": 0}}
    return [delta(role="assistant", content=""), *(delta(content=piece) for piece in pieces), end, usage]


class StandIn:
    """Serves the page as quire sends it; what it answers to a chat request is `self.reply(handler)`, and `self.asked`
    keeps the requests."""

    def __init__(self, page, fields):
        stand_in = self
        self.asked, self.reply = [], None

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def send(self, status, body, fields):
                self.send_response(status)
                for name, value in fields.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def send_json(self, status, value, **fields):
                self.send(status, json.dumps(value).encode(), {"Content-Type": "application/json", **fields})

            def send_error_json(self, status, message, **fields):
                self.send_json(status, {"error": {"message": message, "type": "x", "code": "x"}}, **fields)

            def send_events(self, chunks, done=True, cut=None, pause=0):
                """Server-sent events, torn apart every `cut` bytes: within lines, within characters."""
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.send_header("Connection", "close")
                self.end_headers()
                data = "".join(f"data: {json.dumps(chunk, ensure_ascii=False)}\n\n" for chunk in chunks)
                data = (data + ("data: [DONE]\n\n" if done else "")).encode()
                for i in range(0, len(data), cut or len(data)):
                    self.wfile.write(data[i : i + (cut or len(data))])
                    time.sleep(pause)  # so that the browser gets to see the pieces
                self.close_connection = True

            def do_GET(self):
                if self.path == "/":
                    self.send(200, page, fields)
                elif self.path == "/v1/models":
                    self.send_json(200, {"object": "list", "data": [{"id": "stand-in"}]})
                else:
                    self.send_error_json(404, "there is no such path here")

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                stand_in.asked.append(body)
                try:
                    stand_in.reply(self)
                except (BrokenPipeError, ConnectionResetError):
                    pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}/"
        self.thread = threading.Thread(target=self.http.serve_forever, args=(0.05,))
        self.thread.start()

    def say(self, text, size=7, **kwargs):
        self.reply = lambda handler: handler.send_events(stream_of(text, size), **kwargs)

    def stop(self):
        self.http.shutdown()
        self.thread.join()
        self.http.server_close()


class Page:
    """The page as a person uses it."""

    def __init__(self, driver, url):
        self.driver, self.url = driver, url

    def open(self, fresh=True):
        self.driver.get(self.url)
        if fresh:
            self.js("localStorage.clear(); sessionStorage.clear(); history.replaceState(null, '', '/')")
            self.driver.refresh()
        self.ready()
        return self

    def ready(self):
        until(lambda: "good" in self.find("#dot").get_attribute("class"), what="the model's name")

    def js(self, script, *args):
        return self.driver.execute_script(script, *args)

    def find(self, selector):
        return self.driver.find_element("css selector", selector)

    def all(self, selector):
        return self.driver.find_elements("css selector", selector)

    def keys(self, *keys, into="#input"):
        self.find(into).send_keys(*keys)

    def press(self, selector):
        end = time.monotonic() + 3
        while True:
            try:
                return self.find(selector).click()
            except Exception as error:  # by name, since selenium may be absent: what slides in or out is over it
                if type(error).__name__ != "ElementClickInterceptedException" or time.monotonic() > end:
                    raise
                time.sleep(0.05)

    def busy(self):
        return self.js("return document.body.classList.contains('answering')")

    def send(self, text, wait=True):
        self.keys(text, "\ue007")
        if wait:
            self.idle()

    def idle(self, seconds=60):
        until(lambda: not self.busy(), seconds, "the answer's end")

    def texts(self):
        return self.js("return [...document.querySelectorAll('.message .body')].map((one) => one.textContent)")

    def html(self):
        """The last answer's nodes."""
        return self.js("return [...document.querySelectorAll('.assistant .body')].pop().innerHTML")

    def notice(self):
        until(lambda: self.find("#notice").is_displayed(), what="a notice")
        return self.find("#notice").text
