//! Strict imitations of the providers.
