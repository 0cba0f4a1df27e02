"""Documentation and headers for a stand-in SDK: pages as Sphinx writes them, with invented content.

The layout is that of docs/QNN of QNN 2.25 (`div class="section"`) and, as `modern`, of docs/QAIRT-Docs/QNN
of 2.46 and later (`section`): headings with a headerlink, definition items, tables whose empty first cell
goes on with the configuration above, lists inside of paragraphs.
"""

from __future__ import annotations

from pathlib import Path

_PAGE = """<!DOCTYPE html>
<html class="writer-html5" lang="en">
<head><meta charset="utf-8" /><title>{title} &mdash; Qualcomm® AI Engine Direct</title>
<script>var x = "<h2>no heading</h2>";</script></head>
<body class="wy-body-for-nav">
<nav><ul><li class="toctree-l4"><a class="reference internal" href="#fold">Navigation</a></li></ul></nav>
<div role="main" class="document" itemscope="itemscope">
<div itemprop="articleBody">
{body}
</div></div>
<footer><p>&#169; Copyright of nobody</p><h2>Footer</h2></footer>
</body></html>
"""


_FUNCTION = """<dl class="cpp function">
<dt class="sig sig-object cpp" id="x"><span id="y"></span><a class="reference internal" href="t.html"><span
class="n"><span class="pre">Qnn_ErrorHandle_t</span></span></a><span class="w"> </span><span
class="sig-name">QnnSheet_fold</span>(<span>Qnn_Sheet_t</span> <span class="p">*</span><span>sheet</span>)<a
class="headerlink" href="#x" title="Permalink to this definition">¶</a><br /></dt>
<dd><p>Folds it once. </p>
<dl class="field-list simple">
<dt class="field-odd">Parameters</dt>
<dd class="field-odd"><ul class="simple">
<li><p><strong>sheet</strong> – <strong>[in]</strong> What to fold.</p></li>
</ul>
</dd>
<dt class="field-even">Returns</dt>
<dd class="field-even"><p>Error code:<ul class="simple">
<li><p>QNN_SUCCESS: folded</p></li>
<li><p>QNN_SHEET_ERROR_TORN:<ul>
<li><p>it was wet OR</p></li>
</ul>
</p></li>
</ul>
</p>
</dd>
</dl>
</dd></dl>
"""


def _heading(level: int, text: str, anchor: str) -> str:
    link = f'<a class="headerlink" href="#{anchor}" title="Permalink to this heading">¶</a>'
    return f"<h{level}>{text}{link}</h{level}>"


def _section(level: int, text: str, body: str, modern: bool) -> str:
    tag, anchor = ("section", "div")[not modern], text.lower().replace("[", "-").strip("]")
    kind = "" if modern else ' class="section"'
    return f'<{tag}{kind} id="{anchor}">\n{_heading(level, text, anchor)}\n{body}\n</{tag}>\n'


def _items(items: list[str | tuple[str, list[str]]]) -> str:
    lines = []
    for item in items:
        if isinstance(item, tuple):
            inner = "".join(f"<li><p>{text}</p></li>\n" for text in item[1])
            quoted = f"<blockquote>\n<div><ul class='simple'>\n{inner}</ul>\n</div></blockquote>"
            lines.append(f"<li><p>{item[0]}</p>\n{quoted}\n</li>")
        else:
            lines.append(f"<li><p>{item}</p></li>")
    return "<ul>\n" + "\n".join(lines) + "\n</ul>\n"


def _table(head: list[str], rows: list[list[str]]) -> str:
    top = "\n".join(f'<th class="head"><p>{cell}</p></th>' for cell in head)
    body = ""
    for row in rows:
        cells = "".join(
            f"<td><ul class='simple'>\n<li><p>{cell[2:]}</p></li>\n</ul>\n</td>"
            if cell.startswith("- ")
            else f"<td><p>{cell}</p></td>\n"
            if cell
            else "<td></td>\n"
            for cell in row
        )
        body += f"<tr class='row-even'>{cells}</tr>\n"
    return (
        f"<table class='docutils align-default'>\n<colgroup>\n<col style='width: 50%' />\n</colgroup>\n"
        f"<thead>\n<tr class='row-odd'>{top}\n</tr>\n</thead>\n<tbody>\n{body}</tbody>\n</table>\n"
    )


def make_docs(sdk: Path, *, modern: bool = False) -> Path:
    """Write docs/ of an SDK: two operations, four supplements, one page of the API."""
    root = sdk / "docs" / ("QAIRT-Docs/QNN" if modern else "QNN")
    (root / "OpDef").mkdir(parents=True)
    (root / "api-rst").mkdir()
    for name, (title, body) in _pages(modern).items():
        (root / name).write_text(_PAGE.format(title=title, body=body), encoding="utf-8")
    return root


def _pages(modern: bool) -> dict[str, tuple[str, str]]:
    def section(level: int, text: str, body: str) -> str:
        return _section(level, text, body, modern)

    fold = section(
        2,
        "Fold",
        "<p>Folds a sheet: <em>x &lt;= y</em>.</p>\n"
        "<div class='highlight-c++ notranslate'><pre><span class='n'>a</span> = [\n  1]\n</pre></div>\n"
        "<p>References:</p>\n" + _items(["ONNX: <a href='https://example.org'>Bend</a>"])
        + section(3, "Inputs", section(4, "in[0]", "<p>The sheet.</p>" + _items(
            ["one corner is marked", "Mandatory: true", "Data type: backend specific", "Shape: [h,w]",
             ("Constraints:", ["Shape: Rank &gt; 0", "at most two folds"])]))
            + section(4, "in[1..m]", _items(["Mandatory: false", "Data type: QNN_DATATYPE_INT_32"])))
        + section(3, "Parameters", section(4, "edge", "<p>Which edge.</p>" + _items(
            ["Mandatory: false", "Data type: QNN_DATATYPE_UINT_32", "Shape: scalar", "Default: 0",
             ("Values:", ["LEFT = 0,", "RIGHT = 1"])])))
        + section(3, "Outputs", section(4, "out[0]", _items(
            ["Mandatory: true", "Data type: backend specific",
             ("Constraints:", ["Datatype: Same datatype as in[0]"])]))),
    )  # fmt: skip
    mat = section(2, "MatFold", "<p>Folds many.</p>" + section(3, "Parameters", "<p>None</p>"))
    types = ["QNN_DATATYPE_UFIXED_POINT_8", "QNN_DATATYPE_UFIXED_POINT_16", "QNN_DATATYPE_FLOAT_16"]
    htp = section(
        2,
        "Fold",
        section(3, "Datatypes", _table(
            ["Configuration", "in[0]", "in[1..m]", "out[0]"],
            [["FP16", types[2], types[2], types[2]], ["INT16", types[1], types[0], types[1]],
             ["", types[1], types[1], types[1]], ["INT8", types[0], types[0], types[0]]]))
        + section(3, "Constraints", _table(
            ["Configuration", "in[0]", "out[0]"],
            [["All", "- Shape: Max supported rank is 4.", ""],
             ["INT16", "- must be folded symmetrically.", "- Shape: even"],
             ["INT8", "- must be folded symmetrically.", ""]])),
    )  # fmt: skip
    cpu = section(2, "Fold", section(3, "Datatypes", _table(
        ["Configuration", "in[0]", "out[0]", "edge"],
        [["fp32", "QNN_DATATYPE_FLOAT_32, QNN_DATATYPE_INT_32", "QNN_DATATYPE_FLOAT_32",
          "QNN_DATATYPE_UINT_32"],
         ["int8", types[0], types[0], ""]]))
        + section(3, "Support", _table(
            ["Configuration", ""], [["fp32", "- edge only supports its default"]])))  # fmt: skip
    other = section(
        2, "MatFold", section(3, "Datatypes", _table(["Configuration", "in[0]"], [["All", types[2]]]))
    )

    def page(title: str, *sections: str) -> tuple[str, str]:
        return title, _section(1, title, "<p>All of it.</p>\n" + "".join(sections), modern)

    supported = _table(
        ["#", "Operation", "ONNX", "TensorFlow", "CPU", "HTP"],
        [["1", "<a href='MasterOpDef.html#fold'>Fold</a>", "Bend", "fold_v2(FoldV2)", "YES", "YES"],
         ["2", "<a href='MasterOpDef.html#matfold'>MatFold</a>", "<strong>—</strong>", "INFERRED", "NO",
          "NO"]],
    )  # fmt: skip
    return {
        "OpDef/MasterOpDef.html": page("QNN Operation Definitions", fold, mat),
        "OpDef/SupportedOps.html": page("Supported Operations", supported),
        "OpDef/HtpOpDefSupplement.html": page("HTP Backend Op Definition Supplement", htp),
        "OpDef/CpuOpDefSupplement.html": page("CPU Backend Op Definition Supplement", cpu),
        "OpDef/GpuOpDefSupplement.html": page("GPU Backend Op Definition Supplement", other),
        "OpDef/opdef_version_history.html": page("Op Definition Revision History"),
        "api-rst/function_QnnSheet_8h_1a3ea05f42.html": page(
            "Function QnnSheet_fold", section(2, "Function Documentation", _FUNCTION)),
        "api-rst/structQnn__Sheet__t.html": page("Struct Qnn_Sheet_t"),
        "api-rst/typedef_QnnSheet_8h_1a00.html": page("Typedef Qnn_Sheet_t"),
        "api-rst/program_listing_file_include_QNN_QnnSheet.h.html": page("Program Listing for QnnSheet.h"),
    }  # fmt: skip


HEADER = """#ifndef QNN_SHEET_H
#define QNN_SHEET_H
#define QNN_MIN_ERROR_SHEET 42000
/// Nothing went wrong
#define QNN_SUCCESS 0
#define QNN_PASTE(a, b) a##b

/**
 * @brief What can go wrong.
 */
typedef enum {
  QNN_SHEET_MIN_ERROR = QNN_MIN_ERROR_SHEET,
  ////////////////////////////////////////
  /// It is torn; { a brace in a comment
  QNN_SHEET_ERROR_TORN = QNN_MIN_ERROR_SHEET + 1,
  QNN_SHEET_ERROR_WET,
  /* Unused, present to ensure 32 bits. */
  QNN_SHEET_ERROR_UNDEFINED = 0x7FFFFFFF
} QnnSheet_Error_t;

// clang-format off

/// Where it is folded: (typedef struct old; in words)
typedef struct {
  /// From the left, in mm
  float scale;
  int32_t offsets[4];
} Qnn_Crease_t;
// clang-format on

/**
 * @brief A sheet, in one
 *        of its versions.
 */
typedef struct {
  QnnSheet_Error_t state;
  union UNNAMED {
    /// Used in version 1
    Qnn_Crease_t crease;
    const char* const* names;
  };
  void (*notify)(void* sheet, uint32_t count);
} Qnn_Sheet_t;

/**
 * @brief A typedef to name a number. A struct {of words is no struct.
 */
typedef uint64_t Qnn_SheetNumber_t;

/// A handle of a sheet
typedef void* Qnn_SheetHandle_t;
typedef struct _Qnn_SheetPrivate_t* Qnn_SheetPrivate_t;

// clang-format off
/// Qnn_Crease_t initializer macro
#define QNN_CREASE_INIT   \\
  {                       \\
    0.0f, /*scale*/       \\
    { 0u }                \\
  }
// clang-format on

typedef void (*Qnn_SheetFn_t)(void* sheet);

/**
 * @brief Folds it.
 *
 * @param[in] sheet What to fold.
 */
QNN_API
Qnn_ErrorHandle_t QnnSheet_fold(const Qnn_Sheet_t* sheet,
                                uint32_t times);
#endif
"""
