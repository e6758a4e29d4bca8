//! Holdfast against OAuth servers that nobody here wrote: oidc-provider from npm and django-oauth-toolkit from PyPI, described by
//! the files in this folder. `cargo xtask test --suite peers` installs them and says where they are.

#![expect(clippy::unwrap_used, reason = "all of this is a test")]

mod connect;
mod lost;
mod peer;
mod relay;
mod scene;
mod sign_in;
mod storm;
