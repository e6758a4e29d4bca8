//! The domain of Holdfast.
