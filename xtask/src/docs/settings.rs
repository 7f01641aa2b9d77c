//! The server's settings, from the parser that reads them.

use clap::{Arg, CommandFactory};
use serde::Serialize;
use std::fmt::Write;
use ticketing_server::config::Settings;

/// One setting, as pages show it.
#[derive(Serialize)]
struct Setting {
    variable: String,
    flag: String,
    value: String,
    default: String,
    help: String,
}

fn settings() -> Vec<Setting> {
    Settings::command().get_arguments().filter_map(setting).collect()
}

/// `None` for flags that are no settings, such as `--help`.
fn setting(argument: &Arg) -> Option<Setting> {
    let variable = argument.get_env()?.to_str()?.to_owned();
    let values = argument.get_default_values().iter().map(|value| value.to_string_lossy());
    Some(Setting {
        variable,
        flag: format!("--{}", argument.get_long()?),
        value: argument.get_value_names()?.first()?.to_string(),
        default: values.collect::<Vec<_>>().join(","),
        help: argument.get_help()?.to_string(),
    })
}

/// A table of all.
pub(super) fn table() -> String {
    rows(settings())
}

/// A table of those that a single server has.
pub(super) fn single_table() -> String {
    let is_single = |setting: &Setting| {
        let name = setting.variable.trim_start_matches("TICKETING_");
        !["CLUSTER_", "PEER_", "SLOT"].iter().any(|prefix| name.starts_with(prefix))
    };
    rows(settings().into_iter().filter(is_single))
}

fn rows(settings: impl IntoIterator<Item = Setting>) -> String {
    let mut table = String::from("| variable | default | meaning |\n|---|---|---|\n");
    for Setting { variable, default, help, .. } in settings {
        let default = if default.is_empty() { "–".to_owned() } else { format!("`{default}`") };
        writeln!(table, "| `{variable}` | {default} | {help} |").expect("a string grows");
    }
    table
}

/// Data for the form that writes a run command.
pub(super) fn data() -> String {
    let json = serde_json::to_string_pretty(&settings()).expect("settings are texts");
    // Nothing in a script element may end it.
    let json = json.replace("</", "<\\/");
    format!("<script type=\"application/json\" id=\"settings\">\n{json}\n</script>\n")
}
