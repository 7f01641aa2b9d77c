//! What the command line parser cannot check by itself.

use super::{LogFilter, Settings};
use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::ffi::OsString;
use std::fmt;
use std::net::SocketAddr;
use ticketing_auth::{TokenError, TokenSet};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

/// Every variable of ours begins so.
const PREFIX: &str = "TICKETING_";
/// Variables of the command line `ticketing`: one environment may serve both, and what it sets for
/// the command it runs may reach a server.
const FOREIGN: [&str; 4] = [
    "TICKETING_ADDRESSES",
    "TICKETING_FENCING_TOKEN",
    "TICKETING_FINGERPRINT",
    "TICKETING_VALID_BEFORE",
];
/// Those of them by which clients expect TLS.
const FOREIGN_TLS: [&str; 3] = ["TICKETING_TLS", "TICKETING_TLS_CA", "TICKETING_TLS_SERVER_NAME"];
/// The value that expects none.
const TLS_OFF: (&str, &str) = ("TICKETING_TLS", "off");

/// Settings that do not fit together.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigError {
    /// A variable by which clients expect TLS, of a server without.
    ClientTls(&'static str),
    /// The settings of a cluster node.
    Cluster(super::ClusterError),
    /// An address beyond loopback without a token. Mission S3.
    OpenWithoutToken(SocketAddr),
    /// The token or its file.
    Token(TokenError),
    /// A variable that is none of ours.
    UnknownVariable(String),
    /// A value, with the parser's explanation.
    Value(String),
    /// A variable of ours that is not UTF-8.
    VariableNotText(String),
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ClientTls(name) => write!(
                f,
                "{name}: a setting of clients, by which they expect TLS, and this server has no \
                 certificate; set TICKETING_TLS_CERT and TICKETING_TLS_KEY, or unset it"
            ),
            Self::Cluster(error) => error.fmt(f),
            Self::OpenWithoutToken(address) => write!(
                f,
                "TICKETING_LISTEN: {address} is not a loopback address and no token is set, so \
                 anybody could take locks; set TICKETING_TOKEN_FILE (or TICKETING_TOKEN), or \
                 listen on 127.0.0.1 or [::1]"
            ),
            Self::Token(error) => error.fmt(f),
            Self::UnknownVariable(name) if is_service_link(name) => write!(
                f,
                "{name}: no such setting; if Kubernetes set it for a Service of this name, put \
                 enableServiceLinks: false into the pod's spec"
            ),
            Self::UnknownVariable(name) => write!(
                f,
                "{name}: no such setting; unset it, or correct its name (ticketing-server --help \
                 lists all)"
            ),
            Self::Value(explanation) => f.write_str(explanation),
            Self::VariableNotText(name) => write!(f, "{name}: not valid UTF-8; correct its value"),
        }
    }
}

impl std::error::Error for ConfigError {}

/// Whether Kubernetes sets this variable in every pod beside a Service called `ticketing`.
fn is_service_link(name: &str) -> bool {
    let rest = name.strip_prefix(PREFIX).unwrap_or_default();
    rest == "PORT" || rest.starts_with("PORT_") || rest.starts_with("SERVICE_")
}

/// Checks that every `TICKETING_*` variable is a setting: a misspelt limit must not pass silently.
///
/// # Errors
/// Names the first that is none.
pub(super) fn check_environment(variables: &[(OsString, OsString)]) -> Result<(), ConfigError> {
    let command = Settings::command();
    let mut known: Vec<_> = command.get_arguments().filter_map(|arg| arg.get_env()).collect();
    known.extend(FOREIGN.iter().chain(&FOREIGN_TLS).map(std::ffi::OsStr::new));
    let is_ours = |name: &OsString| name.to_string_lossy().starts_with(PREFIX);
    let mut ours: Vec<_> = variables.iter().filter(|(name, _)| is_ours(name)).collect();
    ours.sort();
    for (name, value) in ours {
        let text = name.to_string_lossy().into_owned();
        if !known.contains(&name.as_os_str()) {
            return Err(ConfigError::UnknownVariable(text));
        }
        if value.to_str().is_none() {
            return Err(ConfigError::VariableNotText(text));
        }
    }
    Ok(())
}

/// Checks, for a server without TLS, that the same environment does not make clients expect it:
/// they could not connect, or somebody took their settings for the server's.
///
/// # Errors
/// Names the first variable that does.
pub(super) fn check_client_tls(variables: &[(OsString, OsString)]) -> Result<(), ConfigError> {
    let expects = |known: &str| {
        variables
            .iter()
            .any(|(name, value)| name == known && !(known == TLS_OFF.0 && value == TLS_OFF.1))
    };
    match FOREIGN_TLS.into_iter().find(|known| expects(known)) {
        Some(name) => Err(ConfigError::ClientTls(name)),
        None => Ok(()),
    }
}

impl Settings {
    /// The tokens clients may prove.
    ///
    /// # Errors
    /// A bad token or file, and no token where one is needed.
    pub fn tokens(&self) -> Result<TokenSet, ConfigError> {
        let tokens = match (&self.token, &self.token_file) {
            (Some(token), _) => TokenSet::from_value("TICKETING_TOKEN", token.reveal()),
            (None, Some(path)) => TokenSet::from_file(path),
            (None, None) => Ok(TokenSet::none()),
        }
        .map_err(ConfigError::Token)?;
        let open = self.listen.iter().find(|address| !is_loopback(**address));
        match open {
            Some(address) if !tokens.is_required() => Err(ConfigError::OpenWithoutToken(*address)),
            _ => Ok(tokens),
        }
    }
}

/// The parser's message, which names flags, and the variables of those flags.
pub(super) fn explain(error: &clap::Error) -> String {
    let mut text = error.render().to_string();
    if let Some(message) = text.strip_prefix("error: ") {
        text = message.to_owned();
    }
    if error.kind() == ErrorKind::ArgumentConflict {
        text.push_str("Give one of them.\n");
    }
    let flags = |kind| match error.get(kind) {
        Some(ContextValue::String(flag)) => std::slice::from_ref(flag),
        Some(ContextValue::Strings(flags)) => flags,
        _ => &[],
    };
    let command = Settings::command();
    for flag in flags(ContextKind::InvalidArg).iter().chain(flags(ContextKind::PriorArg)) {
        // As the parser writes it: `--max-keys <COUNT>`.
        let long = flag.trim_start_matches("--").split(' ').next();
        let argument = command.get_arguments().find(|argument| argument.get_long() == long);
        if let Some(variable) = argument.and_then(|argument| argument.get_env()) {
            text.push_str(&format!(
                "--{} may also be set by the variable {}.\n",
                long.unwrap_or_default(),
                variable.display()
            ));
        }
    }
    text.trim_end().to_owned()
}

fn is_loopback(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

pub(super) fn parse_address(text: &str) -> Result<SocketAddr, String> {
    text.trim().parse().map_err(|_| {
        "not an address; write IP:PORT or [IPV6]:PORT, such as 127.0.0.1:5225".to_owned()
    })
}

pub(super) fn parse_log_filter(text: &str) -> Result<LogFilter, String> {
    const REMEDY: &str = "write a level such as info, or target=level pairs";
    // A bare word would be a target, and whatever is not from that target would not be logged.
    let is_word = |part: &&str| {
        let is_level = !part.is_empty() && part.parse::<LevelFilter>().is_ok();
        !is_level && !part.contains(['=', '['])
    };
    if let Some(word) = text.split(',').find(is_word) {
        return Err(format!("{word:?} is no level; {REMEDY}"));
    }
    EnvFilter::try_new(text)
        .map(|_| LogFilter(text.to_owned()))
        .map_err(|error| format!("{error}; {REMEDY}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    fn parse(arguments: &[&str]) -> Result<Settings, String> {
        Settings::try_parse_from([&["ticketing-server"], arguments].concat())
            .map_err(|error| error.to_string())
    }

    fn variables(pairs: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
        pairs.iter().map(|(name, value)| (name.into(), value.into())).collect()
    }

    fn environment(pairs: &[(&str, &str)]) -> Result<(), ConfigError> {
        check_environment(&variables(pairs))
    }

    #[test]
    fn without_settings_it_serves_loopback_without_authentication() {
        let settings = parse(&[]).expect("no settings");
        assert_eq!(settings.listen, ["127.0.0.1:5225".parse().expect("an address")]);
        assert!(!settings.tokens().expect("loopback").is_required());
        assert!(settings.max_in_flight >= 16_512);
    }

    #[test]
    fn every_setting_is_a_variable_and_a_flag_of_the_same_name() {
        for argument in Settings::command().get_arguments() {
            let Some(long) = argument.get_long() else { continue };
            if matches!(long, "help" | "version") {
                continue;
            }
            let name = argument.get_env().expect("a variable").to_str().expect("text");
            assert_eq!(name, format!("{PREFIX}{}", long.to_uppercase().replace('-', "_")));
        }
    }

    #[test]
    fn unknown_variables_are_named() {
        let fine = [("PATH", "/bin"), ("TICKETING_LISTEN", ""), ("TICKETING_FENCING_TOKEN", "1")];
        assert_eq!(environment(&fine), Ok(()));
        let error = environment(&[("TICKETING_MAX_KEY", "5")]).expect_err("misspelt");
        assert_eq!(error, ConfigError::UnknownVariable("TICKETING_MAX_KEY".into()));
        assert!(error.to_string().starts_with("TICKETING_MAX_KEY: no such setting; "));
        for link in ["TICKETING_PORT", "TICKETING_PORT_5225_TCP", "TICKETING_SERVICE_HOST"] {
            let error = environment(&[(link, "10.0.0.1")]).expect_err("none of ours");
            assert!(error.to_string().contains("enableServiceLinks: false"), "{error}");
        }
    }

    #[test]
    fn one_environment_may_serve_clients_too_unless_they_expect_another_server() {
        let read = |arguments: &[&str], pairs: &[(&str, &str)]| {
            let arguments = [&["ticketing-server"], arguments].concat();
            Settings::read(arguments.iter().map(OsString::from), variables(pairs).into_iter())
                .map(|_| ())
        };
        let harmless = [
            ("TICKETING_ADDRESSES", "a:1"),
            ("TICKETING_FENCING_TOKEN", "7"),
            ("TICKETING_FINGERPRINT", "ab"),
            ("TICKETING_TLS", "off"),
            ("TICKETING_VALID_BEFORE", "7"),
        ];
        assert_eq!(read(&[], &harmless), Ok(()));
        for (name, value) in [
            ("TICKETING_TLS", "system"),
            ("TICKETING_TLS", "on"),
            ("TICKETING_TLS_CA", "ca.pem"),
            ("TICKETING_TLS_SERVER_NAME", "lock.example"),
        ] {
            let refused = read(&[], &[(name, value)]);
            assert_eq!(refused, Err(ConfigError::ClientTls(name)));
            let tls = ["--tls-cert", "cert.pem", "--tls-key", "key.pem"];
            assert_eq!(read(&tls, &[(name, value)]), Ok(()));
        }
    }

    #[test]
    fn zero_and_too_much_are_refused_by_name() {
        for flag in [
            "--max-connections",
            "--max-keys",
            "--max-waiters-per-key",
            "--max-in-flight",
            "--threads",
        ] {
            assert!(parse(&[flag, "1"]).is_ok(), "{flag}");
            for value in ["0", "-1", "4294967296", "many", ""] {
                let error = parse(&[&format!("{flag}={value}")]).expect_err("out of range");
                assert!(error.contains(flag), "{error}");
            }
        }
        assert!(parse(&["--max-connections", "1048577"]).is_err());
    }

    #[test]
    fn beyond_loopback_a_token_is_needed() {
        for open in ["0.0.0.0:1", "[::]:1", "192.0.2.1:5225", "127.0.0.1:1,[2001:db8::1]:1"] {
            let settings = parse(&["--listen", open]).expect("addresses");
            assert!(matches!(settings.tokens(), Err(ConfigError::OpenWithoutToken(_))), "{open}");
            let settings = parse(&["--listen", open, "--token", "0123456789abcdef"]);
            assert!(settings.expect("addresses").tokens().expect("a token").is_required());
        }
        for loopback in ["127.0.0.1:1,[::1]:1", "127.9.9.9:1", "[::ffff:127.0.0.1]:1"] {
            assert!(parse(&["--listen", loopback]).expect("addresses").tokens().is_ok());
        }
    }

    #[test]
    fn bad_values_say_what_to_write() {
        let error = parse(&["--listen", "localhost"]).expect_err("not an address");
        assert!(error.contains("write IP:PORT"), "{error}");
        for filter in ["a=b=c", "loud", "info,loud", ""] {
            let error = parse(&["--log", filter]).expect_err("not a filter");
            assert!(error.contains("write a level such as info"), "{error}");
        }
        for filter in ["off", "WARN", "info,ticketing_server::net=debug", "info,a=trace"] {
            assert!(parse(&["--log", filter]).is_ok(), "{filter}");
        }
        let error = parse(&["--tls-cert", "x"]).expect_err("half of TLS");
        assert!(error.contains("--tls-key"), "{error}");
        let error = parse(&["--token", "t", "--token-file", "f"]).expect_err("both");
        assert!(error.contains("--token-file"), "{error}");
        let short = parse(&["--token", "short"]).expect("parsed").tokens().expect_err("too short");
        assert!(short.to_string().starts_with("TICKETING_TOKEN: "), "{short}");
    }

    #[test]
    fn tokens_show_nowhere() {
        let token = "hunter2-hunter2-hunter2";
        let settings = parse(&["--token", token, "--peer-token", token]).expect("parsed");
        assert!(!format!("{settings:?}").contains("hunter2"));
        let conflict = parse(&["--token", token, "--token-file", "f"]).expect_err("both");
        assert!(!conflict.contains("hunter2"), "{conflict}");
    }
}
