"""The style of each language: the name that its TOML file says, and the class that has its rules."""

from __future__ import annotations

from context_engine.resolution.c_style import CStyle
from context_engine.resolution.csharp_style import CSharpStyle
from context_engine.resolution.go_style import GoStyle
from context_engine.resolution.java_style import JavaStyle
from context_engine.resolution.javascript_style import JavaScriptStyle
from context_engine.resolution.kotlin_style import KotlinStyle
from context_engine.resolution.module_styles import ModuleStyle
from context_engine.resolution.php_style import PhpStyle
from context_engine.resolution.python_style import PythonStyle
from context_engine.resolution.ruby_style import RubyStyle
from context_engine.resolution.rust_style import RustStyle

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
