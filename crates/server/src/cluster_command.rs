//! `ticketing-server cluster`: identities.

use crate::output::print;
use clap::Subcommand;
use ring::rand::{SecureRandom, SystemRandom};
use std::process::ExitCode;
use ticketing_auth::{BOOTSTRAP_WINDOW_SECONDS, ClusterId};
use ticketing_server::clock::unix_milliseconds;
use ticketing_server::config::{Settings, hex, parse_slots};

/// What to do.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Prints the environment of a new cluster: the same for every node but for TICKETING_SLOT.
    New {
        /// Addresses of the 3 or 5 nodes, as for TICKETING_CLUSTER_SLOTS.
        #[arg(long, value_name = "ADDRESSES", value_delimiter = ',', required = true)]
        slots: Vec<String>,
        /// Seconds within which all nodes have to be started for the first time.
        #[arg(long, value_name = "SECONDS", default_value_t = BOOTSTRAP_WINDOW_SECONDS,
            value_parser = clap::value_parser!(u32).range(1..=604_800))]
        window: u32,
    },
    /// Prints the identity that this environment configures.
    Show,
}

/// Runs the command.
pub(crate) fn run(
    arguments: &Arguments,
    settings: &Settings,
) -> Result<ExitCode, Box<dyn std::error::Error>> {
    let text = match &arguments.action {
        Action::New { slots, window } => new(slots, *window)?,
        Action::Show => show(settings)?,
    };
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn new(slots: &[String], window: u32) -> Result<String, Box<dyn std::error::Error>> {
    let parsed = parse_slots(slots)?;
    let id = ClusterId::new(random()?, unix_milliseconds() / 1_000, window);
    let fingerprint = hex(&id.fingerprint(parsed.len() as u8));
    let (client_token, peer_token) = (hex(&random::<32>()?), hex(&random::<32>()?));
    Ok(format!(
        "# Start all {} nodes within {window} seconds, each with its own TICKETING_SLOT from 0.\n\
         # Clients need the addresses, TICKETING_TOKEN and the fingerprint.\n\
         # fingerprint={fingerprint}\n\
         TICKETING_CLUSTER_ID={id}\n\
         TICKETING_CLUSTER_SLOTS={}\n\
         TICKETING_TOKEN={client_token}\n\
         TICKETING_PEER_TOKEN={peer_token}\n",
        parsed.len(),
        slots.join(","),
    ))
}

fn show(settings: &Settings) -> Result<String, Box<dyn std::error::Error>> {
    let Some(config) = settings.cluster()? else {
        return Err("TICKETING_CLUSTER_ID: not set, so this environment is a single server's; \
                    `ticketing-server cluster new` prints one of a cluster"
            .into());
    };
    let window_end = config.id.created_unix_seconds() + u64::from(config.id.window_seconds());
    let mut text = format!(
        "fingerprint={}\nslot={}\nbegins_until_unix={window_end}\n",
        hex(&config.fingerprint()),
        config.slot,
    );
    for (slot, address) in config.slots.iter().enumerate() {
        text += &format!("slot {slot} clients={} peers={}\n", address.client, address.peer);
    }
    Ok(text)
}

fn random<const SIZE: usize>() -> Result<[u8; SIZE], Box<dyn std::error::Error>> {
    let mut bytes = [0; SIZE];
    SystemRandom::new().fill(&mut bytes).map_err(
        |_| "the operating system gives no random bytes; check that getrandom(2) is allowed",
    )?;
    Ok(bytes)
}
