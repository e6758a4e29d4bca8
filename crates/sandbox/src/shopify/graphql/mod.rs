//! GraphQL, as far as the Admin API is imitated: read, held to the schema, run.

pub(crate) mod parse;
pub(crate) mod run;
