"""Pages made of the sample profiles by the built program, and one browser for a class of tests."""

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
# A name that HTML, scripts and shells would trip over.
HOSTILE_FILE = "it's \"<script>alert(1)<&$(touch x)`touch y`;.json"
EMULATED = ("emulated:imagenet-1k,samples=2000", "--storage", "emulated:60MB/s", "--prep", "emulated:500", "--cores", "4", "--accelerator", "emulated:3000",
            "--batch-size", "32", "--cache-size", "50%", "--time-budget", "6s")


# Records that the program makes, by their names: what it is asked.
ASKED = {"whatif-sweep": ("whatif", "--rates", "G=9800,P=10200±2%,C=252000,S=4700±2%", "--base", "cores=24,accelerators=8,batch=512,dataset=146GiB,cache=35%",
                          "--cache-size", "25%,50%,75%,100%", "--cores", "12,36,48", "--accelerator-speed", "2x", "--find", "cache", "--all"),
         "whatif-servers": ("whatif", "--rates", "G=9800,P=10200±2%,C=252000,S=1200±3%", "--base", "accelerators=8,batch=128,dataset=146GiB,samples=1281167,cache=35%",
                            "--servers", "2,4,8,256", "--partition", "none,partitioned,locality", "--balance-from", "peers,storage",
                            "--storage-scope", "server,shared", "--network", "10Gbit/s"),
         "simulate-sizes": ("simulate", "ds-analyzer-figure-16-alexnet")}

# record(s) of a page, by the page's name
PAGES = {"minio": ["minio"], "no-accelerator": ["no-accelerator"], "page": ["page"], "least": ["least"], "hostile": ["hostile"],
         "comparison": ["minio", "lru", "no-cache"], "emulated": ["emulated"],
         "sweep": [f"sweep-{cache}-{cores}" for cache in (25, 50, 100) for cores in (4, 8)], "whatif": ["whatif"], "whatif-sweep": ["whatif-sweep"],
         "whatif-servers": ["whatif-servers"],
         "simulate": ["simulate"], "simulate-sizes": ["simulate-sizes"], "doctor": ["doctor"], "gate": ["gate"], "hostile-doctor": ["hostile-doctor"]}
# Those that have something to slide; without a rate, and in records of other kinds, there is nothing.
SLIDING = {"minio", "no-accelerator", "page", "hostile", "comparison", "emulated", "sweep"}

OVERFLOWING = """
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= width) return [];
  return [...document.body.querySelectorAll('*')].filter((element) => element.getBoundingClientRect().right > width + 0.5)
    .map((element) => element.tagName + '.' + element.className + ' ' + element.textContent.slice(0, 60));
"""
DRAWN = "return [...document.querySelectorAll('canvas')].every((canvas) => canvas.dataset.drawn === 'true');"


class PageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="dsanalyze-pages-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.environment = dict(os.environ, XDG_STATE_HOME=str(cls.folder / "state"), XDG_CACHE_HOME=str(cls.folder / "cache"))
        cls.kinds = records.all_kinds()
        cls.records = {}
        cls.pages = {}
        cls.browser = chromium.Browser()
        cls.addClassCleanup(cls.browser.close)

    @classmethod
    def program(cls, *arguments):
        run = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, env=cls.environment, timeout=120, check=False)
        if run.returncode != 0:
            raise AssertionError(f"dsanalyze {' '.join(map(str, arguments))}: {run.stderr}")
        return run

    @classmethod
    def record(cls, name):
        """The file of a kind of record: a sample one, or one that the program makes."""
        if name not in cls.records:
            path = cls.folder / (HOSTILE_FILE if name == "hostile" else f"{name}.json")
            if name == "emulated":
                cls.program("profile", *EMULATED, "--quiet", "-o", path)
            elif name in ASKED:
                path.write_text(cls.program(*ASKED[name], "--json").stdout)
            else:
                path.write_text(json.dumps(cls.kinds[name]))
            cls.records[name] = path
        return cls.records[name]

    @classmethod
    def page_of(cls, *names):
        """The page of these records."""
        if names not in cls.pages:
            page = cls.folder / f"{'-'.join(names)}.html"
            cls.program("report", *map(cls.record, names), "--format", "html", "--quiet", "-o", page)
            cls.pages[names] = page
        return cls.pages[names]


class SamplePageTest(PageTest):
    def open(self, name, width=1280, scheme="light"):
        self.browser.look(width, scheme)
        page = self.page_of(*PAGES[name])
        self.browser.open(page)
        self.browser.wait_for(DRAWN)
        return page
