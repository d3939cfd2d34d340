"""A gradebook as plain data, so that two of them can be compared."""

from nbgrader.api import Base
from sqlalchemy import create_engine, select


def rows(folders):
    """Table -> its rows, with names in place of the ids that each gradebook makes up."""
    engine = create_engine(folders.db_url)
    with engine.connect() as connection:
        tables = {
            table.name: [row._asdict() for row in connection.execute(select(table))]
            for table in Base.metadata.sorted_tables
        }
    engine.dispose()
    names = {}
    for table, found in tables.items():
        for row in found:
            if len(str(row.get("id"))) == 32:
                told = [f"{key}={names.get(row[key], row[key])}" for key in ("name", "type") if key in row]
                told += [names.get(row[key], str(row[key])) for key in row if key.endswith("_id")]
                names[row["id"]] = f"{table}({', '.join(told)})"
    return {
        table: sorted(({key: names.get(value, value) for key, value in row.items()} for row in found), key=repr)
        for table, found in tables.items()
    }
