"""The rules of names of each language: `STYLES` has the class for the style that a TOML file names."""

from __future__ import annotations

from context_engine.references.languages.c import CStyle
from context_engine.references.languages.csharp import CSharpStyle
from context_engine.references.languages.go import GoStyle
from context_engine.references.languages.java import JavaStyle
from context_engine.references.languages.javascript import JavaScriptStyle
from context_engine.references.languages.kotlin import KotlinStyle
from context_engine.references.languages.php import PhpStyle
from context_engine.references.languages.python import PythonStyle
from context_engine.references.languages.ruby import RubyStyle
from context_engine.references.languages.rust import RustStyle
from context_engine.references.module_styles import ModuleStyle

STYLES: dict[str, type[ModuleStyle]] = {
    "c": CStyle,
    "csharp": CSharpStyle,
    "go": GoStyle,
    "java": JavaStyle,
    "javascript": JavaScriptStyle,
    "kotlin": KotlinStyle,
    "php": PhpStyle,
    "python": PythonStyle,
    "ruby": RubyStyle,
    "rust": RustStyle,
}
