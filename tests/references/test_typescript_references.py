"""Uses of TypeScript and JavaScript definitions are found through modules, re-exports, `require` and types."""

from __future__ import annotations

import pytest

from context_engine.engine import Engine
from tests.support.uses import callers, exact

PROJECT = {
    "src/cage.ts": (
        "export class Cage {\n  constructor(private door: Door) {}\n  shut() { this.door.shut() }\n}\n"
        "export class Door {\n  shut() {}\n}\n"
        "export const build = async (): Promise<Cage> => new Cage(new Door())\n"
    ),
    "src/index.ts": "export { Cage as Box } from './cage'\nexport * from './cage'\n",
    "src/users.ts": (
        "import { Box, build } from './index'\n"
        "export function byType(box: Box) { box.shut() }\n"
        "export async function byCall() { (await build()).shut() }\n"
        "export function byElement(all: Box[]) { all.forEach(one => one.shut()) }\n"
        "export function ofRegExp() { /a/.shut() }\n"
        "export function ofAny(thing) { thing.shut() }\n"
    ),
    "lib/old.js": "function open() {}\nmodule.exports = { open }\n",
    "lib/zoo.js": (
        "function Zoo() { this.doors = [] }\n"
        "Zoo.prototype.close = function () { this.lock() }\n"
        "Zoo.prototype.lock = function () {}\n"
        "module.exports = Zoo\n"
    ),
    "lib/keeper.js": "const Zoo = require('./zoo')\nfunction keep() { new Zoo().lock() }\n",
    "lib/tools.js": "const tools = { oil() { return this.wipe() }, wipe() {} }\nexports.clean = () => tools.wipe()\n",
    "lib/cleaner.js": "const { clean } = require('./tools')\nfunction all() { clean() }\nfunction any(x) { x.clean() }\n",
    "packages/paint/package.json": '{"name": "@zoo/paint", "main": "lib/main.js"}\n',
    "packages/paint/src/main.ts": "export function paint() {}\n",
    "packages/walls/src/main.ts": "import { paint } from '@zoo/paint'\nexport function wall() { paint() }\n",
    "tsconfig.json": '{"compilerOptions": {"paths": {"#cage": ["./src/cage"]}}, /* one */ }\n',
    "src/paths.ts": (
        "import { Door } from '#cage'\n"
        "interface Options { door: Door }\n"
        "export function byField({ door }: Options) { door.shut() }\n"
    ),
    "src/card.tsx": (
        "interface CardProps { onShut(): void }\n"
        "export function Card(props: CardProps) { return <b onShut={1} /> }\n"
        "export function Deck() { return <Card onShut={() => 1} /> }\n"
    ),
    "types/box.d.ts": (
        "declare namespace Box {\n  export { Box_ as default }\n}\n"
        "declare class Box_ { open(): void }\ndeclare class Box extends Box_ {}\nexport = Box\n"
    ),
    "types/user.ts": "import Box from './box'\nfunction ofDefault(box: Box) { box.open() }\n",
    "lib/user.js": "const { open } = require('./old')\nfunction useIt() { open() }\n",
}


@pytest.mark.parametrize(
    ("name", "found"),
    [
        (
            "Cage.shut",
            exact("byType byCall byElement") | {"ofAny": "possible"},
        ),  # through exports of other modules, under other names
        ("Door.shut", exact("shut byField") | {"ofAny": "possible"}),  # a parameter of a constructor is a field
        ("lock", exact("close keep")),  # members of a prototype, by `this` and by `new`
        ("wipe", exact("oil clean")),  # members of an object
        ("paint", exact("wall")),  # a package of the workspace, by its name
        ("onShut", exact("Deck")),  # an attribute of an element, of what the component takes
    ],
)
def test_a_member_is_found_by_the_type_of_its_receiver(engine: Engine, name: str, found: dict[str, str]) -> None:
    assert callers(engine, name, with_possible=True) == found


def test_a_part_of_require_is_the_function_of_the_module(engine: Engine) -> None:
    edges = engine.symbols.trace("open").edges
    assert [(edge.source, edge.kind, edge.certainty) for edge in edges] == [
        ("lib/old.js", "read", "exact"), ("useIt", "call", "exact"),
    ]  # fmt: skip


def test_what_is_assigned_to_exports_belongs_to_the_module_only(engine: Engine) -> None:
    edges = engine.symbols.trace("clean").edges
    assert {edge.source: edge.certainty for edge in edges if edge.kind == "call"} == {"all": "exact"}


def test_a_default_import_takes_the_default_that_a_namespace_has(engine: Engine) -> None:
    edges = engine.symbols.trace("Box", with_possible=True).edges
    assert "types/user.ts" not in {edge.path for edge in edges}
