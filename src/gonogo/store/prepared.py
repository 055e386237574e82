"""Statements compiled once, and handed to SQLite's driver as they are.

SQLAlchemy looks up, sets up and wraps each execution anew, which takes four times what SQLite needs
for the small statements that the store is made of. A `Direct` connection keeps each statement's
text, where its parameters go, and how values are read and written; what it cannot prepare, it
executes as any other connection. Results, values and errors are the same either way.
"""

import sqlite3
from collections import namedtuple
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, cast

from msgspec import Struct
from sqlalchemy import Connection, Executable, create_engine
from sqlalchemy.engine import CursorResult, Dialect
from sqlalchemy.exc import DBAPIError, MultipleResultsFound, NoResultFound
from sqlalchemy.sql import CompoundSelect, Delete, Insert, Select, Update
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.types import TypeEngine

from gonogo.store.columns import Converted
from gonogo.store.schema import plans, subtasks

Converter = Callable[[Any], Any] | None
Given = Mapping[str, Any]
Statement = Insert | Update | Delete | Select[Any]
_STATEMENTS = (Insert, Update, Delete, Select)
_BY_NAME = dict, Mapping
"""Nearly always the first, which is seen at once."""
_DIALECT: Dialect = create_engine("sqlite://").dialect
"""What is prepared for one file counts for every other."""


class Found(list[Any]):
    """What a statement gave: as much of a result as the store asks for, read at once."""

    rowcount: int = -1

    def all(self) -> "Found":
        """All rows."""
        return self

    def first(self) -> Any:  # noqa: ANN401
        """The first row; None where there is none."""
        return self[0] if self else None

    def one_or_none(self) -> Any:  # noqa: ANN401
        """The only row; None where there is none."""
        if len(self) > 1:
            raise MultipleResultsFound("Multiple rows were found when one or none was required")
        return self.first()

    def one(self) -> Any:  # noqa: ANN401
        """The only row."""
        if not self:
            raise NoResultFound("No row was found when one was required")
        return self.one_or_none()

    def scalar(self) -> Any:  # noqa: ANN401
        """The first value of the first row; None where there is none."""
        return self[0][0] if self else None

    def scalar_one(self) -> Any:  # noqa: ANN401
        """The first value of the only row."""
        return self.one()[0]

    def scalars(self) -> "Found":
        """The first value of each row."""
        return Found([row[0] for row in self])

    def mappings(self) -> "Found":
        """The rows as dictionaries."""
        return Found([row._asdict() for row in self])


class PreparedStatement(Struct, frozen=True):
    """A statement as the driver takes it."""

    sql: str
    places: tuple[tuple[str | None, Converter, Any], ...]
    """Of each parameter: by which name it is given and how it is written; or its fixed value."""
    columns: tuple[Converter, ...]
    """How each column of a row is read; empty for a statement that gives none."""
    row: type[Any]
    writes_plans: bool

    def bind(self, given: Given) -> list[Any]:
        """The values of the parameters, in their order, as they are written."""
        return [
            fixed
            if name is None
            else value
            if (value := given[name]) is None or convert is None
            else convert(value)
            for name, convert, fixed in self.places
        ]

    def read(self, rows: Iterable[Sequence[Any]]) -> list[Any]:
        """Rows with names, of what the driver gives."""
        make, columns = self.row._make, self.columns
        return [
            make(
                [
                    value if read is None or value is None else read(value)
                    for read, value in zip(columns, row, strict=True)
                ]
            )
            for row in rows
        ]


class Direct(Connection):
    """A connection to SQLite that prepares the statements that it is given again and again."""

    writes_plans: Callable[[], None] | None = None
    """Told before each statement that writes plans or subtasks, or may."""

    @cached_property
    def raw(self) -> sqlite3.Connection:
        """The driver's own connection, which this one keeps as long as it is of use."""
        return cast("sqlite3.Connection", self.connection.driver_connection)

    def execute(  # type: ignore[override]
        self,
        statement: Executable,
        parameters: Given | Sequence[Given] | None = None,
        *,
        execution_options: Mapping[str, Any] | None = None,
    ) -> CursorResult[Any]:
        """Execute a statement."""
        several, first = apart(parameters)
        ready = prepared(statement, tuple(first), _DIALECT)
        if self.writes_plans and (
            _writes_plans(statement) if ready is None else ready.writes_plans
        ):
            self.writes_plans()
        # Whoever listens to statements is told of them, by the longer way.
        if ready is None or execution_options or self._has_events:
            return super().execute(statement, parameters, execution_options=execution_options)
        raw = self.raw
        bound = [ready.bind(given) for given in several] if several else ready.bind(first)
        try:
            cursor = raw.executemany(ready.sql, bound) if several else raw.execute(ready.sql, bound)
        except sqlite3.Error as error:
            raise DBAPIError.instance(
                ready.sql, bound, error, sqlite3.Error, dialect=self.dialect
            ) from error
        found: Any = Found(ready.read(cursor) if ready.columns else ())
        found.rowcount = cursor.rowcount
        return found


def apart(parameters: Given | Sequence[Given] | None) -> tuple[Sequence[Given] | None, Given]:
    """The parameters of each execution, if there are several, and those of the first."""
    if parameters is None or isinstance(parameters, _BY_NAME):
        return None, parameters or {}
    return parameters, parameters[0] if parameters else {}


@lru_cache(maxsize=1024)
def prepared(
    statement: Executable, names: tuple[str, ...], dialect: Dialect
) -> PreparedStatement | None:
    """The statement for parameters of these names; None for one that is not the same each time."""
    if not isinstance(statement, _STATEMENTS):
        return None
    found = cast("Statement", statement)
    compiled = _compiled(found, names, dialect)
    if compiled.post_compile_params or compiled.prefetch:
        return None
    if compiled.literal_execute_params:
        # What is written into the text is only written once every parameter has some value.
        if not isinstance(found, Select):
            return None
        found = found.params(dict.fromkeys(names))
        compiled = _compiled(found, names, dialect, render_postcompile=True)
    columns = list(found.exported_columns)
    return PreparedStatement(
        str(compiled),
        tuple(_places(compiled, set(names), dialect)),
        tuple(_reader(column.type, dialect) for column in columns),
        _row([str(column.key) for column in columns]),
        _writes_plans(found),
    )


def _row(names: Sequence[str]) -> type[Any]:
    """A row whose values are found by place and by name."""
    return namedtuple("Row", names, rename=True)  # type: ignore[misc]


def _writes_plans(statement: Executable) -> bool:
    if isinstance(statement, Insert | Update | Delete):
        return statement.table in (plans, subtasks)
    return not isinstance(statement, Select | CompoundSelect)


def _compiled(
    statement: Statement, names: Sequence[str], dialect: Dialect, **how: bool
) -> SQLCompiler:
    keys = None if isinstance(statement, Select) else list(names)
    return statement.compile(dialect=dialect, column_keys=keys, compile_kwargs=how)


def _places(
    compiled: SQLCompiler, given: Collection[str], dialect: Dialect
) -> Iterator[tuple[str | None, Converter, Any]]:
    parameters = {name: parameter for parameter, name in compiled.bind_names.items()}
    for name in compiled.positiontup or ():
        convert = _writer(parameters[name].type, dialect)
        if name in given:
            yield name, convert, None
        else:
            value = parameters[name].effective_value
            yield None, None, value if value is None or convert is None else convert(value)


def _writer(kind: TypeEngine[Any], dialect: Dialect) -> Converter:
    """How a value is written that is there."""
    if isinstance(kind, Converted):
        return kind.to_column
    return kind.dialect_impl(dialect).bind_processor(dialect)


def _reader(kind: TypeEngine[Any], dialect: Dialect) -> Converter:
    """How a value is read that is there."""
    if isinstance(kind, Converted):
        return kind.from_column
    return kind.dialect_impl(dialect).result_processor(dialect, None)
