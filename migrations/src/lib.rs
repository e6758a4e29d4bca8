//! The schema, one step per file, for SQLite and PostgreSQL. A released step is never edited.

pub use sea_orm_migration::{MigratorTrait, prelude::MigrationTrait};

/// All steps, in order.
pub struct Migrator;

impl MigratorTrait for Migrator {
    fn migrations() -> Vec<Box<dyn MigrationTrait>> {
        vec![]
    }
}
