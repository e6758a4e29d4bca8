//! The refresh protocol as a model: one credential, some replicas, a provider, a database, and time, explored in every
//! order of steps, with crashes, stalls, cut lines and lost answers at each of them.
//!
//! What is decided, the runtime's own functions decide ([`decisions`]); the order of steps is that of a flight
//! ([`flight`]), and each statement has the conditions that it has in the store ([`database`]). The invariants are
//! [`Property`]s. [`Mutant`]s are faults that each have to break one.

pub mod bounds;
pub mod database;
pub mod decisions;
pub mod explore;
pub mod flight;
pub mod mutant;
pub mod properties;
pub mod protocol;
pub mod provider;
pub mod replica;
pub mod scenarios;
pub mod witness;
pub mod world;

pub use bounds::Bounds;
pub use explore::{Explored, explore};
pub use mutant::Mutant;
pub use properties::Property;
pub use protocol::{Action, Protocol};
pub use witness::{Met, Witness};
pub use world::World;
