"""Pages made of the sample profiles, and one browser for all tests."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import chromium
import records

PROGRAM = os.environ.get("DSANALYZE", "dsanalyze")
SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "reports" / "html"


class PageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="dsanalyze-pages-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.environment = dict(os.environ, XDG_STATE_HOME=str(cls.folder / "state"), XDG_CACHE_HOME=str(cls.folder / "cache"))
        cls.kinds = records.all_kinds()
        cls.pages = {}
        cls.browser = chromium.Browser()
        cls.addClassCleanup(cls.browser.close)

    @classmethod
    def program(cls, *arguments):
        run = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, env=cls.environment, timeout=120, check=False)
        if run.returncode != 0:
            raise AssertionError(f"dsanalyze {' '.join(map(str, arguments))}: {run.stderr}")
        return run

    def page(self, name):
        """(profile, page) of a kind of profile. The hostile one has a name that HTML, scripts and shells would trip over."""
        if name not in self.pages:
            hostile = name == "hostile"
            path = self.folder / ("it's \"<script>alert(1)<&$(touch x)`touch y`;.json" if hostile else f"{name}.json")
            path.write_text(json.dumps(self.kinds["minio" if hostile else name]))
            page = self.folder / f"{name}.html"
            live = subprocess.run([os.environ["PRINT_LIVE_MODEL"], path], capture_output=True, text=True, check=True).stdout
            island = live.replace("<", "\\u003c")
            scripts = "".join(f"<script>{(SCRIPTS / script).read_text()}</script>" for script in ("whatif.js", "whatif_view.js"))
            page.write_text('<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,"><section id="whatif"></section>'
                            f'<script type="application/json" id="record">{{"live":[{island}]}}</script>{scripts}<script>DsanalyzeWhatIf.mount('
                            "document.getElementById('whatif'), JSON.parse(document.getElementById('record').textContent).live[0]);</script>")
            self.pages[name] = (path, page)
        return self.pages[name]
