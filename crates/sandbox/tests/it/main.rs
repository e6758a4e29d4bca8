//! The sandbox over HTTP, as callers of the provider meet it.

mod api;
mod control;
mod faults;
mod freshdesk;
mod front;
mod gorgias;
mod keep;
mod oauth;
mod shopify;
mod support;
