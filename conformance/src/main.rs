//! `ticketing-conformance`: judges the clients named in `drivers.txt`.

use clap::Parser;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use ticketing_conformance::failure::Failure;
use ticketing_conformance::registry::{Built, Language};
use ticketing_conformance::report::{Report, Row};
use ticketing_conformance::scenario::{Group, Scenario};
use ticketing_conformance::vectors::Vectors;
use ticketing_conformance::{bench, groups, live, readme, registry, runner};

/// Judge the official clients over real sockets.
#[derive(Debug, Parser)]
struct Options {
    /// Judge this language only (repeatable).
    #[arg(long, value_name = "NAME")]
    language: Vec<String>,
    /// Run this group of checks only (repeatable).
    #[arg(long, value_name = "NAME")]
    group: Vec<String>,
    /// Run only scenarios whose id contains this text.
    #[arg(long, value_name = "TEXT", default_value = "")]
    scenario: String,
    /// A missing toolchain is a failure.
    #[arg(long)]
    require_all: bool,
    /// Instead: all languages at once against a real server.
    #[arg(long)]
    live: bool,
    /// Instead: speed and memory of each language against a real server.
    #[arg(long, conflicts_with = "live")]
    bench: bool,
    /// Pairs of acquire and release that `--bench` runs with each language.
    #[arg(long, value_name = "COUNT", default_value_t = 1_000_000)]
    pairs: u64,
    /// Print the time of each scenario.
    #[arg(long)]
    times: bool,
    /// List the scenarios and judge nothing.
    #[arg(long)]
    list: bool,
    /// A table of drivers other than the repository's.
    #[arg(long, value_name = "FILE")]
    drivers: Option<PathBuf>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match judge(&Options::parse()).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("conformance: {message}");
            ExitCode::from(2)
        }
    }
}

async fn judge(options: &Options) -> Result<bool, String> {
    let groups = chosen_groups(&options.group)?;
    let vectors = Vectors::load(&root()?.join("vectors"))?;
    let scenarios = || -> Vec<Scenario> {
        let mut all = groups::all(&vectors);
        all.retain(|scenario| {
            groups.contains(&scenario.group) && scenario.id.contains(&options.scenario)
        });
        all
    };
    if options.list {
        scenarios().iter().for_each(|scenario| println!("{}", scenario.id));
        return Ok(true);
    }
    if options.live {
        return play(options).await;
    }
    if options.bench {
        return measure(options).await;
    }
    let require_all = options.require_all;
    let mut report = Report { rows: Vec::new(), groups: groups.clone(), require_all };
    for language in chosen_languages(options)? {
        eprintln!("{}: building", language.name);
        let row = match language.build().await {
            Built::Failed(why) => Row::Broken(why),
            Built::NoToolchain(why) => Row::Skipped(why),
            Built::Yes => judged(&language, scenarios(), &groups, options).await,
        };
        report.rows.push((language.name, row));
    }
    print!("{}", report.text());
    Ok(report.is_good())
}

/// One language after the other; those without a toolchain are left out aloud.
async fn measure(options: &Options) -> Result<bool, String> {
    let mut lines = Vec::new();
    let mut is_good = true;
    for language in chosen_languages(options)? {
        eprintln!("{}: building", language.name);
        let outcome = match language.build().await {
            Built::Yes => {
                let measured = bench::measure(&language, options.pairs).await;
                measured.map_err(|failure| failure.to_string())
            }
            Built::NoToolchain(why) => {
                println!("bench: {}: SKIP toolchain missing: {why}", language.name);
                is_good &= !options.require_all;
                continue;
            }
            Built::Failed(why) => Err(why),
        };
        lines.push(bench::Line::new(&language.name, outcome));
    }
    print!("{}", bench::table(&lines));
    Ok(is_good && lines.iter().all(bench::Line::is_good))
}

/// All languages at once; those without a toolchain are left out aloud.
async fn play(options: &Options) -> Result<bool, String> {
    let mut players = Vec::new();
    let mut is_good = true;
    for language in chosen_languages(options)? {
        eprintln!("{}: building", language.name);
        match language.build().await {
            Built::Yes => players.push(language),
            Built::NoToolchain(why) => {
                println!("live: {}: SKIP toolchain missing: {why}", language.name);
                is_good &= !options.require_all;
            }
            Built::Failed(why) => {
                println!("live: {}: BROKEN {why}", language.name);
                is_good = false;
            }
        }
    }
    let trouble = |failure: Failure| failure.to_string();
    let single = live::single(&players).await.map_err(trouble)?;
    print!("{}", single.text());
    let cluster = live::cluster(&players).await.map_err(trouble)?;
    print!("{}", cluster.text());
    Ok(is_good && single.failures.is_empty() && cluster.failures.is_empty())
}

async fn judged(
    language: &Language,
    scenarios: Vec<Scenario>,
    groups: &[Group],
    options: &Options,
) -> Row {
    eprintln!("{}: {} scenarios", language.name, scenarios.len());
    let mut verdicts = Vec::new();
    if !scenarios.is_empty() {
        match runner::run(language, scenarios).await {
            Err(failure) => return Row::Broken(failure.to_string()),
            Ok(judged) => verdicts = judged,
        }
    }
    if groups.contains(&Group::Readme) && options.scenario.is_empty() {
        verdicts.extend(readme::judge(language).await);
    }
    for verdict in verdicts.iter().filter(|_| options.times) {
        println!("{:>8.2} s {}", verdict.time.as_secs_f64(), verdict.id);
    }
    Row::Judged(verdicts)
}

fn root() -> Result<&'static Path, String> {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or_else(|| "no repository".to_owned())
}

fn chosen_groups(names: &[String]) -> Result<Vec<Group>, String> {
    if names.is_empty() {
        return Ok(Group::ALL.to_vec());
    }
    let known = || Group::ALL.map(Group::name).join(", ");
    names
        .iter()
        .map(|name| {
            let found = Group::ALL.into_iter().find(|group| group.name() == name);
            found.ok_or_else(|| format!("no group `{name}`; there are {}", known()))
        })
        .collect()
}

fn chosen_languages(options: &Options) -> Result<Vec<Language>, String> {
    let root = root()?;
    let table = options.drivers.clone().unwrap_or_else(|| root.join("conformance/drivers.txt"));
    let text = std::fs::read_to_string(&table)
        .map_err(|error| format!("cannot read {}: {error}", table.display()))?;
    let mut languages = registry::parse(&text, root)?;
    for name in &options.language {
        if !languages.iter().any(|language| language.name == *name) {
            return Err(format!("no driver for `{name}` in {}", table.display()));
        }
    }
    languages.retain(|language| {
        options.language.is_empty() || options.language.contains(&language.name)
    });
    Ok(languages)
}
