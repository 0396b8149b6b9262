"""The style of a run's report: light and dark as the reader's system has it, on a wide screen and on a narrow one.

The invariant: it names nothing that would have to be loaded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

_LIGHT: Final = ("#3b6fd4", "#d9822b", "#2e9e6b", "#b5468b", "#7a6ad8", "#b8a22a", "#3aa6b9", "#8a8f98")
_DARK: Final = ("#6f9bf0", "#f0a65a", "#5cc795", "#dd7db7", "#a597f2", "#dbc85a", "#6cccdc", "#a7adb8")
_LIGHT_PAGE: Final = "--ink:#1c1f24;--soft:#5b626d;--line:#d9dde3;--shade:#f2f4f7;--more:#b9c0ca;--page:#fff;"
_DARK_PAGE: Final = "--ink:#e8eaed;--soft:#a2a9b4;--line:#363b44;--shade:#20242b;--more:#59616e;--page:#16191e;"

_PAGE: Final = """\
body{margin:0;background:var(--page);color:var(--ink);font:15px/1.5 system-ui,sans-serif}
main{max-width:60rem;margin:0 auto;padding:1.5rem}
h1{font-size:1.6rem;margin:0;overflow-wrap:anywhere}
h2{font-size:1.15rem;margin:2rem 0 .5rem}
p{margin:.4rem 0;overflow-wrap:anywhere}
.soft,figcaption{color:var(--soft)}
.state{font-size:.9rem;font-weight:600;padding:.1rem .5rem;border:1px solid currentColor;border-radius:1rem}
.finished{color:var(--c2)}
.failed{color:#d64545}
.stopped{color:var(--c1)}
.running{color:var(--c0)}
.trouble{border-left:4px solid #d64545;padding:.3rem .8rem;white-space:pre-wrap}
dl{display:grid;grid-template-columns:repeat(auto-fill,minmax(6.8rem,1fr));gap:.7rem 1rem;margin:1rem 0}
dt{color:var(--soft);font-size:.85rem}
dd{margin:0;font-size:1.3rem;font-variant-numeric:tabular-nums}
pre{white-space:pre-wrap;overflow-wrap:anywhere;background:var(--shade);padding:.8rem;font-size:.85rem}
code{background:var(--shade);padding:.1rem .3rem;font-size:.85rem}
"""
_PLOTS: Final = """\
figure{margin:1.2rem 0}
figcaption{font-size:.9rem}
.none{color:var(--ink)}
.key{margin-left:.8rem;white-space:nowrap}
.key i{display:inline-block;width:.7rem;height:.7rem;margin-right:.3rem}
.plot{display:grid;grid-template-columns:auto minmax(0,1fr);column-gap:.5rem;margin-top:.8rem;
font-size:.75rem;color:var(--soft);font-variant-numeric:tabular-nums}
.ticks{position:relative;min-width:7ch}
.ticks span{position:absolute;right:0;line-height:1;transform:translateY(50%);white-space:nowrap}
svg{display:block;width:100%;height:9rem;overflow:visible}
.each,.ends{grid-column:2;display:flex;justify-content:space-between;padding-top:.3rem;line-height:1.2}
.each span{flex:1 1 0;text-align:center}
path{fill:none;stroke-width:2;vector-effect:non-scaling-stroke}
.grid{stroke:var(--line);stroke-width:1}
.dot{stroke-width:5;stroke-linecap:round}
"""
_TABLES: Final = """\
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{text-align:left;padding:.25rem .8rem .25rem 0;border-bottom:1px solid var(--line);vertical-align:top}
th{color:var(--soft);font-weight:500;white-space:nowrap}
.n{text-align:right}
.over td{border-bottom:0;padding-bottom:0}
.why td{color:var(--soft);font-size:.9rem;overflow-wrap:anywhere}
.wide{overflow-x:auto;background:
linear-gradient(to right,var(--page) 30%,transparent) 0 0/3rem 100% no-repeat local,
linear-gradient(to left,var(--page) 30%,transparent) 100% 0/3rem 100% no-repeat local,
linear-gradient(to right,var(--more),transparent) 0 0/.9rem 100% no-repeat scroll,
linear-gradient(to left,var(--more),transparent) 100% 0/.9rem 100% no-repeat scroll}
@media(max-width:30rem){main{padding:1rem}body{font-size:14px}dd{font-size:1.1rem}.wide{font-size:.9rem}th,td{padding-right:.5rem}}
"""


def style() -> str:
    """Render the page's style sheet."""
    series = range(len(_LIGHT))
    shapes = "".join(
        f".s{n}{{fill:var(--c{n})}}.l{n}{{stroke:var(--c{n})}}.b{n}{{background:var(--c{n})}}" for n in series
    )
    light, dark = f"{_LIGHT_PAGE}{_palette(_LIGHT)}", f"{_DARK_PAGE}{_palette(_DARK)}"
    schemes = f":root{{color-scheme:light dark;{light}}}@media(prefers-color-scheme:dark){{:root{{{dark}}}}}"
    return f"{schemes}{_PAGE}{_PLOTS}{shapes}{_TABLES}".replace("\n", "")


def _palette(colours: Sequence[str]) -> str:
    return "".join(f"--c{number}:{colour};" for number, colour in enumerate(colours))
