//! The service as one thing, entered as its users do: by HTTP, in a browser, on the command line.

#![expect(clippy::unwrap_used, reason = "all of this is tests, most of it in functions that two databases run")]

mod agents;
mod answers;
mod canary;
mod cli;
mod connect;
mod contract;
mod declared;
mod demo;
mod expiry;
mod freshdesk;
mod front;
mod google;
mod gorgias;
mod health;
mod import;
mod jobs;
mod keys;
mod leases;
mod lifeboat;
mod mail;
mod mass;
mod migrations;
mod moving;
mod order_status;
mod own_apps;
mod proxy;
mod reconnect;
mod shopify;
mod storage;
mod tools;
mod ui_agents;
mod ui_connect;
mod ui_connectors;
mod ui_live;
mod ui_oauth_apps;
mod ui_other_account;
mod ui_pages;
mod ui_roles;
mod ui_settings;
mod ui_setup;
mod ui_sign_in;
mod work;
