//! Columns and keys as every table spells them.

use sea_orm_migration::prelude::{ColumnDef, ForeignKey, ForeignKeyAction, ForeignKeyCreateStatement, Index};

/// The primary key: an opaque id of ours.
pub(crate) fn id() -> ColumnDef {
    ColumnDef::new("id").text().not_null().primary_key().take()
}

pub(crate) fn text(name: &'static str) -> ColumnDef {
    ColumnDef::new(name).text().not_null().take()
}

pub(crate) fn text_or_null(name: &'static str) -> ColumnDef {
    ColumnDef::new(name).text().null().take()
}

pub(crate) fn flag(name: &'static str) -> ColumnDef {
    ColumnDef::new(name).boolean().not_null().default(false).take()
}

pub(crate) fn flag_or_null(name: &'static str) -> ColumnDef {
    ColumnDef::new(name).boolean().null().take()
}

/// Counts up from zero.
pub(crate) fn count(name: &'static str) -> ColumnDef {
    ColumnDef::new(name).big_integer().not_null().default(0).take()
}

pub(crate) fn bytes(name: &'static str) -> ColumnDef {
    ColumnDef::new(name).binary().not_null().take()
}

pub(crate) fn bytes_or_null(name: &'static str) -> ColumnDef {
    ColumnDef::new(name).binary().null().take()
}

pub(crate) fn json(name: &'static str) -> ColumnDef {
    ColumnDef::new(name).json_binary().not_null().take()
}

pub(crate) fn json_or_null(name: &'static str) -> ColumnDef {
    ColumnDef::new(name).json_binary().null().take()
}

/// A moment, by a replica's clock.
pub(crate) fn at(name: &'static str) -> ColumnDef {
    ColumnDef::new(name).timestamp_with_time_zone().not_null().take()
}

pub(crate) fn at_or_null(name: &'static str) -> ColumnDef {
    ColumnDef::new(name).timestamp_with_time_zone().null().take()
}

/// A reference that keeps what it points to from being deleted.
pub(crate) fn refers(table: &'static str, column: &'static str, to: &'static str) -> ForeignKeyCreateStatement {
    ForeignKey::create().from(table, column).to(to, "id").take()
}

/// A reference that goes away with what it points to.
pub(crate) fn belongs(table: &'static str, column: &'static str, to: &'static str) -> ForeignKeyCreateStatement {
    ForeignKey::create().from(table, column).to(to, "id").on_delete(ForeignKeyAction::Cascade).take()
}

/// A unique key over these columns, for `create_table`.
pub(crate) fn unique(columns: &[&'static str]) -> sea_orm_migration::prelude::IndexCreateStatement {
    let mut index = Index::create();
    index.unique();
    for column in columns {
        index.col(*column);
    }
    index
}
