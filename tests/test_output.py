import base64
import sys
import types
from html.parser import HTMLParser

import pytest
from autogradlab import output
from autogradlab.output import Notice, Picture, Table

SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="60" height="30"><circle cx="15" cy="15" r="10"/></svg>'
PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)


class Elements(HTMLParser):
    """The elements of a piece of HTML, and its words."""

    def __init__(self, html):
        super().__init__()
        self.found, self.words = [], ""
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.words += data

    def named(self, tag):
        return [attributes for name, attributes in self.found if name == tag]


def test_a_picture_is_an_image_with_its_alternative_text_and_the_bytes_inside():
    (image,) = Elements(Picture(SVG, alt="A filled circle alone.").html).named("img")
    kind, data = image["src"].split(",")
    assert kind == "data:image/svg+xml;base64"
    assert base64.b64decode(data).decode() == SVG
    assert image["alt"] == "A filled circle alone."
    assert "background:#ffffff" in image["style"]


def test_a_png_says_so_and_is_shown_at_the_width_asked_for():
    (image,) = Elements(Picture(PNG, alt="A filled circle alone.", width=300).html).named("img")
    assert image["src"].startswith("data:image/png;base64,")
    assert image["width"] == "300"


def test_a_picture_without_a_known_format_is_refused_in_words():
    with pytest.raises(ValueError, match="Expected an SVG or a PNG"):
        Picture(b"GIF89a", alt="A filled circle alone.")


@pytest.mark.parametrize("alt", [None, "", "  \n ", "plot", "Figure 1", 7])
def test_a_picture_without_a_sentence_is_refused(alt):
    with pytest.raises(ValueError, match="does not say what the picture shows"):
        Picture(SVG, alt=alt)


def test_the_text_form_stands_folded_below_the_picture_and_is_the_plain_text():
    picture = Picture(SVG, alt="A filled\n circle alone.", text=["two\n  lines", Table(["x"], [[1]])])
    tags = [tag for tag, _ in Elements(picture.html).found]
    assert tags[:4] == ["img", "details", "summary", "pre"]
    assert "table" in tags
    assert picture.text == "A filled circle alone.\n\ntwo\n  lines\n\nx\n1"


def test_a_text_form_that_is_the_alternative_text_is_not_said_twice():
    assert Picture(SVG, alt="w to mul\nmul to loss", text="w to mul\nmul to loss").text == "w to mul\nmul to loss"


def test_without_a_text_form_nothing_is_folded():
    picture = Picture(SVG, alt="A filled circle alone.")
    assert Elements(picture.html).named("details") == []
    assert picture.text == "A filled circle alone."


HOSTILE = "a \"quoted' <script>alert(1)</script> & b"


@pytest.mark.parametrize(
    "shown",
    [
        Picture(SVG, alt=HOSTILE, text=[HOSTILE]),
        Picture(SVG, alt="A filled circle alone.", text=Table([HOSTILE], [[HOSTILE]], HOSTILE)),
        Table([HOSTILE, "b"], [[HOSTILE, HOSTILE]], caption=HOSTILE),
        Notice(HOSTILE, HOSTILE, see=HOSTILE),
    ],
    ids=["picture", "picture of a table", "table", "notice"],
)
def test_words_never_become_markup(shown):
    elements = Elements(shown.html)
    assert elements.named("script") == []
    assert HOSTILE in elements.words
    assert HOSTILE in shown.text


def test_a_hostile_sentence_stays_in_its_attribute():
    (image,) = Elements(Picture(SVG, alt=HOSTILE).html).named("img")
    assert image["alt"] == HOSTILE


def test_every_output_gives_a_notebook_its_html_and_its_text():
    for shown in [Notice("One.", "Two."), Table(["x"], [[1]]), Picture(SVG, alt="A filled circle alone.")]:
        assert shown._repr_mimebundle_() == {"text/html": shown.html, "text/plain": shown.text}
        assert repr(shown) == shown.text


def test_a_table_names_its_columns_and_its_rows():
    table = Table(["name", "bytes"], [["loss", 13312], ["x", 2.0]], caption="Memory")
    headings = [attributes["scope"] for attributes in Elements(table.html).named("th")]
    assert headings == ["col", "col", "row", "row"]
    assert len(Elements(table.html).named("caption")) == 1
    assert table.text == "Memory\nname  bytes\nloss  13312\n   x      2"


@pytest.mark.parametrize(
    ("table", "focusable"),
    [
        (Table(["step", *["a run with a long name"] * 7], [[100, *[0.0012345] * 7]]), False),
        (Table(["step", *["a run with a long name"] * 12], [[100, *[0.0012345] * 12]]), True),
        (Table(["name"], [["w" * 100]]), True),
    ],
)
def test_only_a_table_too_wide_for_the_page_has_something_to_focus(table, focusable):
    assert (Elements(table.html).named("summary") != []) == focusable


def test_a_table_with_a_ragged_row_is_refused():
    with pytest.raises(ValueError, match="another number of cells than the 2 columns"):
        Table(["a", "b"], [[1, 2], [3]])


def test_a_notice_is_a_status_with_a_link_to_the_heading():
    elements = Elements(Notice("One.", "Two.", see="Every `backward` adds").html)
    assert elements.found[0] == ("div", elements.found[0][1] | {"role": "status"})
    assert [link["href"] for link in elements.named("a")] == ["#Every-backward-adds"]
    assert Notice("One.", "Two.", see="Every `backward` adds").text == "One.\nTwo.\nSee: Every backward adds"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (28.0, "28"),
        (-0.0, "0"),
        (3.315789, "3.3158"),
        (1099511627776, "1099511627776"),
        (2**60 + 1, str(2**60 + 1)),
        (1e300, "1e+300"),
        (True, "True"),
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
        ("torch.float32", "torch.float32"),
    ],
)
def test_values_read_as_people_write_them(value, words):
    assert output.as_text(value) == words


def test_outside_a_notebook_the_text_is_printed(monkeypatch, capsys):
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    output.show(Notice("One."), Notice("Two."))
    assert capsys.readouterr() == ("One.\nTwo.\n", "")


def test_inside_a_notebook_the_output_itself_is_displayed(monkeypatch, capsys):
    displayed = []
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: "a shell"))
    monkeypatch.setitem(sys.modules, "IPython.display", types.SimpleNamespace(display=displayed.append))
    notice = Notice("One.")
    output.show(notice)
    assert displayed == [notice]
    assert capsys.readouterr().out == ""
