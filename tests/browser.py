"""Pages in a real browser: headless Chromium runs a page and then the test's own script on it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from html import unescape
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--hide-scrollbars", "--window-size=1200,800", "--virtual-time-budget=3000"),
)

WATCH = """
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'">
<script>
const wrong = [];
addEventListener("error", (event) => wrong.push(`error: ${event.message}`), true);
addEventListener("unhandledrejection", (event) => wrong.push(`rejected: ${event.reason}`));
addEventListener("securitypolicyviolation", (event) => wrong.push(`request: ${event.blockedURI}`));
for (const kind of ["error", "warn"]) {
  console[kind] = (...parts) => wrong.push(`${kind}: ${parts.join(" ")}`);
}
</script>
"""
"""What begins the page: it may load nothing, and whatever goes wrong is written down."""

ASK = """
<script>
const press = (element) => {
  const { left, top, width, height } = element.getBoundingClientRect();
  const hit = document.elementFromPoint(left + width / 2, top + height / 2);
  if (!element.contains(hit)) throw new Error(`${element.outerHTML} is not where it is pressed`);
  for (const kind of ["pointerdown", "pointerup", "click"]) {
    hit.dispatchEvent(new PointerEvent(kind, { bubbles: true, cancelable: true }));
  }
};
const pressKey = (key, target = document.body) => {
  target.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
};
const all = (selector) => [...document.querySelectorAll(selector)];
const texts = (selector) => all(selector).map((element) => element.textContent);
addEventListener("load", () => {
  let found = null;
  try { found = (() => {%s})(); } catch (error) { wrong.push(String(error)); }
  // What is loaded is refused a moment later.
  setTimeout(() => {
    wrong.push(...performance.getEntriesByType("resource").map((one) => `request: ${one.name}`));
    const told = document.createElement("pre");
    told.id = "told-to-the-test";
    told.textContent = JSON.stringify([found, wrong]);
    document.body.append(told);
  }, 200);
});
</script>
"""


def browser() -> str:
    """The path of Chromium; without it the test is skipped, and in CI it fails."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        problem = "there is no Chromium: install the package chromium"
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(problem)
    return found


def asked(html: str, script: str) -> tuple[Any, list[str]]:
    """What a script returns that runs once a page is shown, and what went wrong in it.

    Args:
        html: The page.
        script: The body of a function. ``press(element)`` clicks it where it is seen, which fails
            where something lies over it; ``pressKey(key)`` presses a key; ``all(selector)`` are
            elements, and ``texts(selector)`` what stands in them.
    """
    page = html.replace("<head>", f"<head>{WATCH}", 1)
    at = page.rindex("</body>")
    page = page[:at] + ASK % script + page[at:]
    with tempfile.TemporaryDirectory(prefix="graphc-browser-") as folder:
        path = Path(folder, "page.html")
        path.write_text(page, encoding="utf-8")
        profile = f"--user-data-dir={folder}/profile"
        command = [browser(), *FLAGS, profile, "--dump-dom", path.as_uri()]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    told = re.search(r'<pre id="told-to-the-test">(.*?)</pre>', done.stdout, re.DOTALL)
    assert told, done.stdout[-2000:] + done.stderr[-2000:]
    found, wrong = json.loads(unescape(told[1]))
    return found, wrong
