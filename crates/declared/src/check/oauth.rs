//! The keys that are about OAuth.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use holdfast_core::provider::{ClientAuth, RefreshLife, Rotation, TokenBody};
use serde_json::Value;

use super::{Checker, leak_all};
use crate::{
    fault::Fault,
    file::{ClientAuthWord, File, RevokeWord, RotationWord, TokenBodyWord},
    service::{OAuth, RevokeBy},
    template::{Template, UrlTemplate},
};

/// What requests and callbacks carry anyway.
const RESERVED_PARAMS: &[&str] = &[
    "code",
    "code_challenge",
    "code_challenge_method",
    "code_verifier",
    "error",
    "grant_type",
    "redirect_uri",
    "response_type",
    "scope",
    "state",
];

const DAY: Duration = Duration::from_hours(24);

/// The first key of a file that is about OAuth.
pub(super) fn keys(file: &File) -> Option<&'static str> {
    let set = [
        ("app_steps", !file.app_steps.is_empty()),
        ("authorize_url", file.authorize_url.is_some()),
        ("token_url", file.token_url.is_some()),
        ("revoke_url", file.revoke_url.is_some()),
        ("revoke_by", file.revoke_by.is_some()),
        ("scopes", !file.scopes.is_empty()),
        ("silent_scopes", !file.silent_scopes.is_empty()),
        ("scope_separator", file.scope_separator.is_some()),
        ("client_auth", file.client_auth.is_some()),
        ("token_body", file.token_body.is_some()),
        ("pkce", file.pkce.is_some()),
        ("authorize_params", !file.authorize_params.is_empty()),
        ("token_params", !file.token_params.is_empty()),
        ("refresh_params", !file.refresh_params.is_empty()),
        ("callback", !file.callback.is_empty()),
        ("rotation", file.rotation.is_some()),
        ("reuse_grace_seconds", file.reuse_grace_seconds.is_some()),
        ("expires_in_default", file.expires_in_default.is_some()),
        ("refresh_expires_in_field", file.refresh_expires_in_field.is_some()),
        ("refresh_idle_days", file.refresh_idle_days.is_some()),
        ("refresh_age_days", file.refresh_age_days.is_some()),
        ("rejected_codes", !file.rejected_codes.is_empty()),
        ("app_codes", !file.app_codes.is_empty()),
    ];
    set.into_iter().find(|(_, is_set)| *is_set).map(|(key, _)| key)
}

pub(super) fn check(checker: &Checker<'_>, known: &BTreeSet<&str>) -> Result<OAuth, Fault> {
    let file = checker.file;
    let needed = |key: &str, text: &Option<String>| match text {
        Some(text) => checker.url(key, text, known),
        None => checker.wrong(key, "it is missing", "set it: auth = \"oauth2\" needs it"),
    };
    let rotation = match file.rotation {
        None | Some(RotationWord::SingleUse) => Rotation::SingleUse,
        Some(RotationWord::Reusable) => Rotation::Reusable,
    };
    if rotation == Rotation::Reusable && file.reuse_grace_seconds.is_some() {
        let remedy = "take it out, or set rotation = \"single_use\"";
        return checker.wrong("reuse_grace_seconds", "a refresh token that stays needs no grace", remedy);
    }
    let seconds = |secs: Option<u32>| Duration::from_secs(secs.unwrap_or_default().into());
    Ok(OAuth {
        authorize_url: needed("authorize_url", &file.authorize_url)?,
        token_url: needed("token_url", &file.token_url)?,
        revoke: revoke(checker, known)?,
        scopes: scopes(checker)?,
        silent_scopes: leak_all(&file.silent_scopes),
        scope_separator: separator(checker)?,
        client_auth: match file.client_auth {
            None | Some(ClientAuthWord::Body) => ClientAuth::Body,
            Some(ClientAuthWord::Basic) => ClientAuth::Basic,
        },
        token_body: match file.token_body {
            None | Some(TokenBodyWord::Form) => TokenBody::Form,
            Some(TokenBodyWord::Json) => TokenBody::Json,
        },
        pkce: file.pkce.unwrap_or(true),
        authorize_params: templates(checker, "authorize_params", &file.authorize_params, known)?,
        token_params: plain(checker, "token_params", &file.token_params)?,
        refresh_params: plain(checker, "refresh_params", &file.refresh_params)?,
        callback: templates(checker, "callback", &file.callback, known)?,
        rotation,
        reuse_grace: seconds(file.reuse_grace_seconds),
        expires_in_default: match file.expires_in_default {
            Some(0) => return checker.wrong("expires_in_default", "no token lives for no time", "write seconds"),
            life => life.map(|life| seconds(Some(life))),
        },
        refresh_expires_in_field: file.refresh_expires_in_field.clone(),
        refresh_life: refresh_life(checker)?,
        rejected_codes: file.rejected_codes.clone(),
        app_codes: file.app_codes.clone(),
    })
}

fn revoke(checker: &Checker<'_>, known: &BTreeSet<&str>) -> Result<Option<(RevokeBy, UrlTemplate)>, Fault> {
    let Some(url) = &checker.file.revoke_url else {
        return match checker.file.revoke_by {
            Some(_) => checker.wrong("revoke_by", "there is no revoke_url", "set it, or take this out"),
            None => Ok(None),
        };
    };
    let by = match checker.file.revoke_by {
        None | Some(RevokeWord::Rfc7009) => RevokeBy::Rfc7009,
        Some(RevokeWord::Form) => RevokeBy::Form,
        Some(RevokeWord::Bearer) => RevokeBy::Bearer,
    };
    Ok(Some((by, checker.url("revoke_url", url, known)?)))
}

fn separator(checker: &Checker<'_>) -> Result<char, Fault> {
    match checker.file.scope_separator.as_deref() {
        None | Some(" ") => Ok(' '),
        Some(",") => Ok(','),
        Some(_) => checker.wrong("scope_separator", "it is neither \" \" nor \",\"", "write one of the two"),
    }
}

fn scopes(checker: &Checker<'_>) -> Result<Vec<String>, Fault> {
    let file = checker.file;
    for (name, words) in &file.scopes {
        if name.is_empty() || name.chars().any(|c| c.is_whitespace() || c == ',') || words.trim().is_empty() {
            let remedy = "write each as \"name\" = \"what it allows, in words\"";
            return checker.wrong("scopes", "a scope has no name or no words, or its name is several", remedy);
        }
    }
    if let Some(name) = file.silent_scopes.iter().find(|name| !file.scopes.contains_key(*name)) {
        let reason = format!("{name} is not among the scopes");
        return checker.wrong("silent_scopes", &reason, "list it in [scopes] too");
    }
    Ok(file.scopes.keys().cloned().collect())
}

fn refresh_life(checker: &Checker<'_>) -> Result<RefreshLife, Fault> {
    let file = checker.file;
    let days = |key: &str, days: u32| match days {
        1..=3660 => Ok(DAY * days),
        _ => checker.wrong(key, "it is not within 1 to 3660 days", "correct it"),
    };
    match (file.refresh_idle_days, file.refresh_age_days) {
        (None, None) => Ok(RefreshLife::AsTold),
        (Some(idle), None) => Ok(RefreshLife::Idle(days("refresh_idle_days", idle)?)),
        (None, Some(age)) => Ok(RefreshLife::Age(days("refresh_age_days", age)?)),
        (Some(_), Some(_)) => {
            let remedy = "keep refresh_age_days: tokens are refreshed long before they are idle for days";
            checker.wrong("refresh_idle_days", "refresh_age_days is set too", remedy)
        }
    }
}

fn not_reserved(checker: &Checker<'_>, table: &str, name: &str) -> Result<String, Fault> {
    let key = format!("{table}.{name}");
    if RESERVED_PARAMS.contains(&name) {
        return checker.wrong(&key, "Holdfast sends or reads it itself", "take it out");
    }
    Ok(key)
}

fn templates(
    checker: &Checker<'_>,
    table: &str,
    params: &BTreeMap<String, String>,
    known: &BTreeSet<&str>,
) -> Result<Vec<(String, Template)>, Fault> {
    let one = |(name, text): (&String, &String)| {
        let key = not_reserved(checker, table, name)?;
        Ok((name.clone(), checker.template(&key, text, known)?))
    };
    params.iter().map(one).collect()
}

fn plain(checker: &Checker<'_>, table: &str, params: &BTreeMap<String, String>) -> Result<Vec<(String, Value)>, Fault> {
    let one = |(name, text): (&String, &String)| {
        not_reserved(checker, table, name)?;
        Ok((name.clone(), Value::String(text.clone())))
    };
    params.iter().map(one).collect()
}
