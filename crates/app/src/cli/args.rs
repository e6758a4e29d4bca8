//! What can be typed. The help texts are written for somebody who sees Holdfast for the first time.

use std::{net::SocketAddr, path::PathBuf};

use clap::{Parser, Subcommand, ValueEnum};

use crate::moving::Format;

/// Keeps the connections of AI agents to their helpdesks alive.
///
/// New here? `holdfast demo` shows everything on this machine, with nothing to set up.
#[derive(Clone, Debug, Parser)]
#[command(name = "holdfast", version, propagate_version = true, arg_required_else_help = true)]
pub struct Args {
    /// Settings file [default: $HOLDFAST_CONFIG, else ./holdfast.toml if it is there]
    #[arg(long, global = true, value_name = "PATH")]
    pub config: Option<PathBuf>,
    /// Print data as JSON
    #[arg(long, global = true)]
    pub json: bool,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Run the service
    Serve(ServeArgs),
    /// Try everything out: a service with made-up providers, an admin and data, all in one folder
    Demo(DemoArgs),
    /// Bring the database's schema up to date
    Migrate(MigrateArgs),
    /// Check the installation; says what is wrong and what to do about it
    Doctor,
    /// The key that seals all stored secrets
    #[command(subcommand)]
    MasterKey(MasterKeyCommand),
    /// People who sign in
    #[command(subcommand)]
    User(UserCommand),
    /// API keys of programs
    #[command(subcommand)]
    Key(KeyCommand),
    /// Connections to accounts at providers
    #[command(subcommand)]
    Connector(ConnectorCommand),
    /// The services that can be connected, and files that describe further ones
    #[command(subcommand)]
    Provider(ProviderCommand),
    /// A provider changes how access works: have its connectors reconnected, and see who has
    #[command(subcommand)]
    Migration(MigrationCommand),
    /// Where providers send that know one address for a whole OAuth app
    #[command(subcommand)]
    Webhook(WebhookCommand),
}

impl Command {
    /// What is logged where the operator has said nothing: of a command that comes and goes, only what went wrong.
    pub fn usual_log_filter(&self) -> &'static str {
        match self {
            // The migrator and PostgreSQL's notices tell at each start that there is nothing to do.
            Self::Serve(_) | Self::Demo(_) => "info,sea_orm_migration=warn,sqlx=warn",
            _ => "warn",
        }
    }
}

/// `holdfast serve`
#[derive(Clone, Debug, clap::Args)]
pub struct ServeArgs {
    /// Address and port to listen on [default: 127.0.0.1:8080, or `listen` of the settings]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: Option<SocketAddr>,
    /// Leave the database's schema as it is
    #[arg(long)]
    pub no_migrate: bool,
}

/// `holdfast demo`
#[derive(Clone, Debug, clap::Args)]
pub struct DemoArgs {
    /// Port on 127.0.0.1; 0 takes a free one [default: the one of before, else 8080, else a free one]
    #[arg(long, value_name = "N")]
    pub port: Option<u16>,
    /// Do not open the browser
    #[arg(long)]
    pub no_browser: bool,
    /// Folder for its data [default: ./holdfast-demo]
    #[arg(long, value_name = "PATH")]
    pub dir: Option<PathBuf>,
    /// Start over: remove what the demo has in its folder
    #[arg(long)]
    pub fresh: bool,
}

/// `holdfast migrate`
#[derive(Clone, Debug, clap::Args)]
pub struct MigrateArgs {
    /// Nothing: migrate.
    #[command(subcommand)]
    pub command: Option<MigrateCommand>,
}

/// `holdfast migrate ...`
#[derive(Clone, Copy, Debug, Subcommand)]
pub enum MigrateCommand {
    /// Show which steps are done and which are not; changes nothing
    Status,
}

/// `holdfast master-key ...`
#[derive(Clone, Copy, Debug, Subcommand)]
pub enum MasterKeyCommand {
    /// Print a new key, alone, for `master_key` or `master_key_file` of the settings
    New,
}

/// `holdfast user ...`
#[derive(Clone, Debug, Subcommand)]
pub enum UserCommand {
    /// Add a person to an organisation, which is made when it is new
    Create {
        /// Name of the organisation
        #[arg(long, value_name = "NAME")]
        org: String,
        /// E-mail address, to sign in with
        #[arg(long, value_name = "ADDRESS")]
        email: String,
        /// What the person may do [default: owner where they are the first, else member]
        #[arg(long, value_enum)]
        role: Option<Role>,
        /// The person also runs this installation
        #[arg(long)]
        operator: bool,
        /// Read the password from stdin, one line
        #[arg(long)]
        password_stdin: bool,
    },
    /// Set a new password, for somebody who forgot theirs; signs them out everywhere
    ///
    /// Makes one and prints it, alone and only this once, unless it is read from stdin.
    SetPassword {
        /// E-mail address of the person
        #[arg(long, value_name = "ADDRESS")]
        email: String,
        /// Name of the organisation; needed where the person belongs to several
        #[arg(long, value_name = "NAME")]
        org: Option<String>,
        /// Read the password from stdin, one line
        #[arg(long)]
        password_stdin: bool,
    },
    /// Print a link by which somebody sets a new password themselves, alone and only this once
    ///
    /// It works for an hour, once, and for all organisations of the address.
    ResetPassword {
        /// E-mail address of the person
        #[arg(long, value_name = "ADDRESS")]
        email: String,
    },
    /// Turn somebody's two-factor sign-in off, who lost their authenticator app and their recovery codes
    ///
    /// They are told by mail. Make sure that it is them who ask: their password alone signs them in then.
    ResetTwoFactor {
        /// E-mail address of the person
        #[arg(long, value_name = "ADDRESS")]
        email: String,
    },
    /// Unlink somebody from their account at the identity provider, as where that was made anew
    ///
    /// Browsers that came in by it are signed out, and they are told by mail. Their next sign-in there links it anew.
    UnlinkProvider {
        /// E-mail address of the person
        #[arg(long, value_name = "ADDRESS")]
        email: String,
    },
    /// Take a person out of an organisation, at once; signs them out everywhere
    ///
    /// The last owner of an organisation stays. What they made stays too, API keys among it.
    Remove {
        /// E-mail address of the person
        #[arg(long, value_name = "ADDRESS")]
        email: String,
        /// Name of the organisation; needed where the person belongs to several
        #[arg(long, value_name = "NAME")]
        org: Option<String>,
    },
    /// Change what a person may do in an organisation
    SetRole {
        /// E-mail address of the person
        #[arg(long, value_name = "ADDRESS")]
        email: String,
        /// Name of the organisation; needed where the person belongs to several
        #[arg(long, value_name = "NAME")]
        org: Option<String>,
        /// What the person may do from now on
        #[arg(long, value_enum)]
        role: Role,
    },
    /// List people; never their passwords
    List {
        /// Only of this organisation
        #[arg(long, value_name = "NAME")]
        org: Option<String>,
    },
}

/// What a person may do in an organisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Role {
    /// Everything
    Owner,
    /// Everything but owners
    Admin,
    /// Daily work
    Member,
    /// Look
    Viewer,
}

impl From<Role> for holdfast_core::Role {
    fn from(role: Role) -> Self {
        match role {
            Role::Owner => Self::Owner,
            Role::Admin => Self::Admin,
            Role::Member => Self::Member,
            Role::Viewer => Self::Viewer,
        }
    }
}

/// `holdfast key ...`
#[derive(Clone, Debug, Subcommand)]
pub enum KeyCommand {
    /// Make a key and print it, alone and only this once
    Create {
        /// Name of the organisation
        #[arg(long, value_name = "NAME")]
        org: String,
        /// What the key is for, to recognise it later
        #[arg(long, value_name = "NAME")]
        name: String,
        /// What it may do, such as connectors:read, connectors:write, tokens:read; one or several
        #[arg(long = "scope", value_name = "SCOPE", required = true, num_args = 1.., value_delimiter = ',')]
        scopes: Vec<String>,
    },
    /// List keys; never the keys themselves
    List {
        /// Only of this organisation
        #[arg(long, value_name = "NAME")]
        org: Option<String>,
    },
    /// Make a key worthless, at once
    Revoke {
        /// Id, from `key list`
        id: String,
    },
}

/// `holdfast connector ...`
#[derive(Clone, Debug, Subcommand)]
pub enum ConnectorCommand {
    /// List connectors and their health
    List {
        /// Only of this organisation
        #[arg(long, value_name = "NAME")]
        org: Option<String>,
    },
    /// Show one connector; never its secrets
    Show {
        /// Id, from `connector list`
        id: String,
    },
    /// Call the provider with the stored credential, and say whether it works
    Test {
        /// Id, from `connector list`
        id: String,
    },
    /// Take connectors over from another system: JSON lines, each as for POST /api/v1/connectors
    ///
    /// Says per line what happened. Safe to run twice: what is there already is left alone. The export of another system
    /// is read as it is; its ids are kept as aliases, which the API accepts.
    Import {
        /// Whose export it is
        #[arg(long, value_enum, value_name = "SYSTEM", default_value_t)]
        from: Format,
        /// Check everything, and write nothing
        #[arg(long)]
        dry_run: bool,
        /// Name of the organisation; needed where there are several
        #[arg(long, value_name = "NAME")]
        org: Option<String>,
        /// File, or - for stdin
        #[arg(value_name = "FILE", default_value = "-")]
        file: PathBuf,
    },
}

/// `holdfast provider ...`
#[derive(Clone, Debug, Subcommand)]
pub enum ProviderCommand {
    /// List the providers of this installation, and where each comes from
    List,
    /// Check a file that describes a provider; asks nobody
    Check {
        /// The file
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Go the whole way with a file: connect an account, refresh, make the test call, and say what came of it
    ///
    /// Serves a page on this machine for the consent, and keeps everything in a folder that is removed afterwards. Client
    /// id and secret come from oauth_apps.ID of the configuration, as in HOLDFAST_OAUTH_APPS__ID__CLIENT_ID; a sandbox
    /// from providers.ID.base_url_override. A key is asked for on the page.
    Try {
        /// The file
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// The account, in any form that people type [default: the page asks]
        #[arg(long, value_name = "ACCOUNT")]
        account: Option<String>,
        /// Port on 127.0.0.1; register http://127.0.0.1:N/oauth/callback with the OAuth app
        #[arg(long, value_name = "N", default_value_t = 8765)]
        port: u16,
        /// Seconds to wait for the consent
        #[arg(long, value_name = "SECONDS", default_value_t = 600)]
        wait: u64,
    },
}

/// `holdfast webhook ...`
#[derive(Clone, Debug, Subcommand)]
pub enum WebhookCommand {
    /// Print the address of an OAuth app's webhook, made where there is none, with the steps at the provider
    ///
    /// For Front's application webhooks, Gmail's push and the topics in Shopify's app configuration: events say whose they are.
    App {
        /// The provider's id, such as front
        provider: String,
        /// Name of the organisation whose own OAuth app it is; else the instance's
        #[arg(long, value_name = "NAME")]
        org: Option<String>,
        /// Which of the provider's ways, where it has several
        #[arg(long, value_name = "KIND")]
        kind: Option<String>,
        /// Read what proves deliveries from stdin, one line: the secret, or the service account's address
        #[arg(long)]
        secret_stdin: bool,
    },
}

/// `holdfast migration ...`
#[derive(Clone, Debug, Subcommand)]
pub enum MigrationCommand {
    /// Ask the admins of all organisations to reconnect what works with a grant of before now
    ///
    /// They see it on their first page, and are told by mail: one message each, and a reminder a week ahead of the
    /// deadline to those who have not acted. Nothing stops working by it.
    Start {
        /// The provider's id, such as zendesk
        provider: String,
        /// The last day, such as 2027-04-01
        #[arg(long, value_name = "DATE")]
        deadline: Option<String>,
        /// Why, for the people who are asked; one line
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
        /// Only connectors whose token has no end and is not renewed
        #[arg(long)]
        only_endless: bool,
        /// Say whom it concerns, and change nothing
        #[arg(long)]
        dry_run: bool,
    },
    /// List migrations and how far each is
    List,
    /// Show how far each organisation is, and the connectors that have to be reconnected still
    Show {
        /// Id, from `migration list`
        id: String,
    },
    /// Ask nobody any more
    End {
        /// Id, from `migration list`
        id: String,
    },
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, error::ErrorKind};

    use super::*;

    fn parse(line: &str) -> Result<Args, clap::Error> {
        Args::try_parse_from(line.split(' '))
    }

    #[test]
    fn the_definition_holds_together() {
        Args::command().debug_assert();
    }

    #[test]
    fn every_documented_command_is_understood() {
        for line in [
            "holdfast serve",
            "holdfast serve --listen 127.0.0.1:8080 --no-migrate",
            "holdfast demo --port 0 --no-browser --dir /tmp/demo",
            "holdfast migrate",
            "holdfast migrate status --json",
            "holdfast doctor --config /etc/holdfast.toml",
            "holdfast --config /etc/holdfast.toml --json doctor",
            "holdfast master-key new",
            "holdfast user create --org Acme --email a@example.com --role owner --operator --password-stdin",
            "holdfast user set-password --email a@example.com",
            "holdfast user reset-password --email a@example.com",
            "holdfast user reset-two-factor --email a@example.com",
            "holdfast user unlink-provider --email a@example.com",
            "holdfast user set-password --email a@example.com --org Acme --password-stdin",
            "holdfast user remove --email a@example.com --org Acme",
            "holdfast user set-role --email a@example.com --org Acme --role viewer",
            "holdfast user list --org Acme --json",
            "holdfast key create --org Acme --name ci --scope connectors:read tokens:read",
            "holdfast key create --org Acme --name ci --scope connectors:read --scope tokens:read",
            "holdfast key list --org Acme",
            "holdfast key revoke key_1",
            "holdfast provider list --json",
            "holdfast provider check config/providers/xero.toml",
            "holdfast provider try xero.toml --account Acme --port 0 --wait 60",
            "holdfast connector list",
            "holdfast connector show con_1 --json",
            "holdfast connector test con_1",
            "holdfast connector import",
            "holdfast connector import -",
            "holdfast connector import connectors.jsonl --org Acme",
            "holdfast migration start zendesk",
            "holdfast migration start zendesk --deadline 2027-04-01 --reason R --only-endless --dry-run",
            "holdfast migration list --json",
            "holdfast migration show mig_1",
            "holdfast migration end mig_1",
        ] {
            assert!(parse(line).is_ok(), "{line}: {}", parse(line).unwrap_err());
        }
    }

    #[test]
    fn scopes_may_come_in_any_way() {
        let base = "holdfast key create --org A --name n";
        for rest in ["--scope a b", "--scope a --scope b", "--scope a,b"] {
            let Command::Key(KeyCommand::Create { scopes, .. }) = parse(&format!("{base} {rest}")).unwrap().command
            else {
                panic!("another command");
            };

            assert_eq!(scopes, ["a", "b"], "{rest}");
        }
    }

    #[test]
    fn wrong_use_is_told_from_failure() {
        for line in [
            "holdfast fly",
            "holdfast serve --listen nowhere",
            "holdfast key create --org A --name n",
            "holdfast user create",
        ] {
            let error = parse(line).unwrap_err();

            assert_eq!(error.exit_code(), 2, "{line}");
        }
        assert_eq!(parse("holdfast --help").unwrap_err().kind(), ErrorKind::DisplayHelp);
        assert_eq!(parse("holdfast --version").unwrap_err().exit_code(), 0);
    }
}
