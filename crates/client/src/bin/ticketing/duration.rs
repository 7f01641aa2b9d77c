//! Durations as people write them: `500ms`, `30s`, `2m`.

use std::time::Duration;

const MILLIS_PER_SECOND: u64 = 1000;
const MILLIS_PER_MINUTE: u64 = 60 * MILLIS_PER_SECOND;

/// A number and its unit.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let split = text.find(|char: char| !char.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let millis = match unit {
        "ms" => 1,
        "s" => MILLIS_PER_SECOND,
        "m" => MILLIS_PER_MINUTE,
        _ => return Err("write a number and its unit: ms, s or m, as in 30s".into()),
    };
    let number: u64 = number.parse().map_err(|_| "write a number and its unit, as in 30s")?;
    number.checked_mul(millis).map(Duration::from_millis).ok_or_else(|| "it is too long".into())
}

/// The same where the protocol knows whole seconds from 1 only.
pub(crate) fn parse_whole_seconds(text: &str) -> Result<Duration, String> {
    let duration = parse(text)?;
    if duration.subsec_nanos() == 0 && !duration.is_zero() {
        Ok(duration)
    } else {
        Err("give whole seconds, at least 1s, as in 30s or 2m".into())
    }
}

/// As [`parse`] reads it. Anything below a millisecond is left out.
pub(crate) fn write(duration: Duration) -> String {
    if duration.subsec_millis() == 0 {
        format!("{}s", duration.as_secs())
    } else {
        format!("{}ms", duration.as_millis())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_needed_and_understood() {
        for (text, millis) in
            [("500ms", 500), ("0s", 0), ("30s", 30_000), ("2m", 120_000), ("1000ms", 1000)]
        {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in
            ["", "30", "s", "-1s", "+1s", "1.5s", "1 s", "1h", "1S", "99999999999999999999s"]
        {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(parse("18446744073709551615m").is_err());
    }

    #[test]
    fn what_is_written_is_read_again() {
        for text in ["0s", "30s", "5100ms", "250s"] {
            assert_eq!(parse(text).map(write).as_deref(), Ok(text));
        }
    }

    #[test]
    fn fractions_of_seconds_are_refused_where_seconds_count() {
        assert_eq!(parse_whole_seconds("2000ms"), Ok(Duration::from_secs(2)));
        for text in ["1500ms", "0s", "0ms"] {
            assert!(
                parse_whole_seconds(text).expect_err(text).contains("whole seconds, at least 1s")
            );
        }
    }
}
