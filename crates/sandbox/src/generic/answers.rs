//! Who a token speaks for, in each service's own words, and what comes along with tokens and callbacks.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::GENERIC_KEY;
use super::state::Granted;
use super::table::Service;
use crate::desk::{World, locked};
use crate::http::{Answer, Request, find, pairs};

/// Ids of the two organisations that everybody of Xero and Atlassian is in, if they are Ada.
const OTHER_TENANT: &str = "11111111-0000-4000-8000-000000000000";
const OWN_TENANT: &str = "22222222-0000-4000-8000-000000000000";

fn realm(granted: &Granted) -> &'static str {
    if granted.who == "ada" { "9130357849536736" } else { "9130357849530000" }
}

fn email(granted: &Granted) -> String {
    format!("{}@example.com", granted.who)
}

/// What a callback brings beside the code.
pub(super) fn of_callback(granted: &Granted) -> Option<(&'static str, String)> {
    match granted.service {
        "quickbooks" => Some(("realmId", realm(granted).to_owned())),
        // Whoever has an account elsewhere is sent on to there.
        "zoho" if granted.who == "ada" => Some(("accounts-server", format!("https://{}", granted.host))),
        "zoho" => Some(("accounts-server", "https://accounts.zoho.com.au".to_owned())),
        _ => None,
    }
}

/// Whether a code that was given at one host is known at another.
pub(super) fn is_home(service: &Service, granted: &Granted, host: &str) -> bool {
    match service.id {
        "okta" | "auth0" | "salesforce" | "zoho" => granted.host == host,
        "intercom" => granted.host.trim_start_matches("app.").replace(".com", ".io") == host.trim_start_matches("api."),
        _ => true,
    }
}

/// What a token answer brings beside the tokens.
pub(super) fn add_extras(service: &Service, granted: &Granted, body: &mut Value) {
    match service.id {
        "slack" => {
            body["ok"] = true.into();
            body["token_type"] = "bot".into();
            body["team"] = json!({"id": "T1", "name": "Acme"});
            body["authed_user"] = json!({"id": "U7"});
        }
        "salesforce" => {
            body["instance_url"] = format!("https://{}", granted.host).into();
            body["issued_at"] = "1796000000000".into();
            body["signature"] = "c2lnbmVk".into();
        }
        "zoho" => body["api_domain"] = granted.host.replace("accounts.zoho", "https://www.zohoapis").into(),
        "notion" => {
            body["workspace_name"] = workspace(granted).into();
            body["workspace_id"] = "w1".into();
        }
        _ => {}
    }
}

fn workspace(granted: &Granted) -> &'static str {
    if granted.who == "ada" { "Tidewater Supply" } else { "Globex" }
}

pub(super) fn serve(world: &World, service: &Service, host: &str, path: &str, request: &Request) -> Answer {
    let token = bearer(service, request);
    let now_ms = world.clock.now_ms();
    if matches!(service.id, "stripe" | "openai") {
        return by_key(service, path, request, token.as_deref());
    }
    if let Some(answer) = revocation(world, service, path, request) {
        return answer;
    }
    let granted = token.and_then(|token| locked(&world.generic.state).bearer(service, &token, now_ms).cloned());
    match granted {
        Some(granted) => api(service, &granted, host, path, request),
        None => unauthorized(service),
    }
}

fn bearer(service: &Service, request: &Request) -> Option<String> {
    let header = request.header("authorization")?;
    if let Some(pair) = header.strip_prefix("Basic ").filter(|_| service.id == "stripe") {
        let pair = String::from_utf8(STANDARD.decode(pair).ok()?).ok()?;
        return pair.strip_suffix(':').map(str::to_owned);
    }
    header.strip_prefix("Bearer ").map(str::to_owned)
}

fn by_key(service: &Service, path: &str, request: &Request, key: Option<&str>) -> Answer {
    if key != Some(GENERIC_KEY) {
        let words = "Invalid API Key provided";
        return Answer::json(401, json!({"error": {"message": words, "type": "invalid_request_error"}}));
    }
    match (service.id, request.method.as_str(), path) {
        ("stripe", "GET", "v1/account") => Answer::json(
            200,
            json!({"id": "acct_1032D82eZvKYlo2C", "object": "account", "email": "ada@example.com",
                "settings": {"dashboard": {"display_name": "Tidewater Supply"}}}),
        ),
        ("openai", "GET", "v1/models") => {
            Answer::json(200, json!({"object": "list", "data": [{"id": "gpt-x", "object": "model"}]}))
        }
        _ => Answer::json(
            404,
            json!({"error": {"message": "Unrecognized request URL", "type": "invalid_request_error"}}),
        ),
    }
}

/// `None`: it is none.
fn revocation(world: &World, service: &Service, path: &str, request: &Request) -> Option<Answer> {
    if request.method != "POST" {
        return None;
    }
    let of_form = || find(&pairs(&request.body), "token").map(str::to_owned);
    let (token, done) = match (service.id, path) {
        ("okta", "oauth2/v1/revoke") => {
            let basic = request.header("authorization").is_some_and(|value| value.starts_with("Basic "));
            (of_form().filter(|_| basic), Answer::empty(200))
        }
        ("salesforce", "services/oauth2/revoke") => (of_form(), Answer::empty(200)),
        ("slack", "api/auth.revoke") => {
            (bearer(service, request), Answer::json(200, json!({"ok": true, "revoked": true})))
        }
        ("dropbox", "2/auth/token/revoke") => (bearer(service, request), Answer::json(200, Value::Null)),
        _ => return None,
    };
    let known = token.is_some_and(|token| locked(&world.generic.state).give_back(&token));
    Some(if known { done } else { unauthorized(service) })
}

fn unauthorized(service: &Service) -> Answer {
    match service.id {
        "slack" => Answer::json(200, json!({"ok": false, "error": "invalid_auth"})),
        "salesforce" => {
            Answer::json(401, json!([{"message": "Session expired or invalid", "errorCode": "INVALID_SESSION_ID"}]))
        }
        "dropbox" => Answer::json(
            401,
            json!({"error_summary": "expired_access_token/..", "error": {".tag": "expired_access_token"}}),
        ),
        _ => Answer::json(401, json!({"error": "invalid_token", "message": "The access token is not valid."}))
            .header("www-authenticate", "Bearer error=\"invalid_token\""),
    }
}

fn api(service: &Service, granted: &Granted, host: &str, path: &str, request: &Request) -> Answer {
    let ada = granted.who == "ada";
    let name = if ada { "Ada Lindholm" } else { "Bob Osei" };
    let ok = |body: Value| Answer::json(200, body);
    let not_found = || Answer::json(404, json!({"message": "There is nothing here"}));
    match (service.id, request.method.as_str(), path) {
        ("intercom", "GET", "me") => ok(json!({"type": "admin", "id": "814860", "name": name, "email": email(granted),
            "app": {"type": "app", "id_code": if ada { "abc12345" } else { "zzz99999" }, "name": workspace(granted)}})),
        ("hubspot", "GET", "account-info/v3/details") => {
            ok(json!({"portalId": if ada { 62_515_987 } else { 11_111_111 }, "timeZone": "Europe/Berlin"}))
        }
        ("slack", "POST", "api/auth.test") => ok(json!({"ok": true, "team": "Acme", "team_id": "T1",
            "url": if ada { "https://acme.slack.com/" } else { "https://globex.slack.com/" },
            "user": "holdfast", "user_id": "U7", "bot_id": "B7"})),
        ("salesforce", "GET", "services/oauth2/userinfo") => ok(json!({"user_id": "005", "organization_id": "00D",
            "name": name, "email": email(granted)})),
        ("helpscout", "GET", "v2/users/me") => ok(json!({"id": 4, "firstName": name, "lastName": "L",
            "email": email(granted), "role": "owner"})),
        ("jira-service-management", "GET", "oauth/token/accessible-resources") => {
            let site =
                |id: &str, name: &str| json!({"id": id, "name": name, "url": format!("https://{name}.atlassian.net")});
            let own = ada.then(|| site(OWN_TENANT, "acme"));
            ok(std::iter::once(site(OTHER_TENANT, "globex")).chain(own).collect())
        }
        ("jira-service-management", "GET", path) => match path.strip_prefix("ex/jira/") {
            Some(rest) if rest.starts_with(OWN_TENANT) => ok(json!({"site": "acme", "displayName": name})),
            Some(rest) if rest.starts_with(OTHER_TENANT) => ok(json!({"site": "globex", "displayName": name})),
            _ => not_found(),
        },
        ("microsoft-graph", "GET", "v1.0/me") => ok(json!({"id": "48d31887", "displayName": name, "mail": Value::Null,
            "userPrincipalName": email(granted)})),
        ("xero", "GET", "connections") => {
            let one = |id: &str, name: &str| {
                json!({"id": format!("c-{name}"), "authEventId": "e1", "tenantId": id,
                "tenantType": "ORGANISATION", "tenantName": name})
            };
            let own = ada.then(|| one(OWN_TENANT, "Tidewater Supply"));
            ok(std::iter::once(one(OTHER_TENANT, "Globex")).chain(own).collect())
        }
        ("xero", "GET", _) => match request.header("xero-tenant-id") {
            Some(OWN_TENANT) => ok(json!({"Organisations": [{"Name": "Tidewater Supply"}]})),
            Some(OTHER_TENANT) => ok(json!({"Organisations": [{"Name": "Globex"}]})),
            _ => Answer::json(403, json!({"Title": "Forbidden", "Detail": "AuthenticationUnsuccessful"})),
        },
        ("quickbooks", "GET", path) => {
            let own = realm(granted);
            if path == format!("v3/company/{own}/companyinfo/{own}") {
                ok(json!({"CompanyInfo": {"Id": "1", "CompanyName": "Tidewater Supply",
                    "Email": {"Address": email(granted)}}}))
            } else {
                Answer::json(
                    403,
                    json!({"fault": {"type": "AUTHORIZATION", "error": [{"message": "ApplicationAuthorizationFailed"}]}}),
                )
            }
        }
        ("okta", "GET", "oauth2/v1/userinfo") | ("auth0", "GET", "userinfo") if granted.host == host => {
            ok(json!({"sub": "00u1", "name": name, "email": email(granted)}))
        }
        ("github", "GET", "user") => ok(
            json!({"login": if ada { "octocat" } else { "hubot" }, "id": 583_231, "name": name, "email": Value::Null}),
        ),
        ("notion", "GET", "v1/users/me") => match request.header("notion-version") {
            Some(_) => ok(json!({"object": "user", "id": "n-1", "type": "bot", "name": "Holdfast",
                "bot": {"owner": {"type": "user"}, "workspace_name": workspace(granted)}})),
            None => Answer::json(
                400,
                json!({"object": "error", "status": 400, "code": "missing_version", "message": "Notion-Version is missing"}),
            ),
        },
        ("dropbox", "POST", "2/users/get_current_account") => {
            // An RPC without arguments: a body that says it is JSON has to be some.
            if request.is_json() && request.body.is_empty() {
                return Answer::text(400, "Error in call to API function: request body could not be decoded as JSON");
            }
            ok(json!({"account_id": "dbid:1", "email": email(granted), "name": {"display_name": name}}))
        }
        ("zoho", "GET", "crm/v2/org") if host == granted.host.replace("accounts.zoho", "www.zohoapis") => {
            ok(json!({"org": [{"id": "4150868000000225013", "zgid": if ada { "20071234567" } else { "20079999999" },
                "company_name": workspace(granted)}]}))
        }
        _ => not_found(),
    }
}
