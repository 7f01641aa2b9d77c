//! Numbers as people read them.

/// With thousands separated: `1,234,567`.
pub(super) fn count(value: usize) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Decimal megabytes, one decimal place.
pub(super) fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

/// A duration given in microseconds, in the unit that reads best.
pub(super) fn micros(value: f64) -> String {
    match value {
        _ if value < 9.95 => format!("{value:.1} µs"),
        _ if value < 999.5 => format!("{value:.0} µs"),
        _ if value < 9_950.0 => format!("{:.1} ms", value / 1e3),
        _ if value < 999_500.0 => format!("{:.0} ms", value / 1e3),
        _ => format!("{:.1} s", value / 1e6),
    }
}

/// Two significant digits below 10, whole numbers from 10 on.
pub(super) fn significant(value: f64) -> String {
    match value {
        _ if value < 1.0 => format!("{value:.2}"),
        _ if value < 10.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts() {
        let texts = [0, 999, 1_000, 65_000, 1_500_000].map(count);
        assert_eq!(texts, ["0", "999", "1,000", "65,000", "1,500,000"]);
    }

    #[test]
    fn durations() {
        let texts = [0.0, 9.94, 9.96, 999.0, 1_000.0, 12_345.0, 2_500_000.0].map(micros);
        assert_eq!(texts, ["0.0 µs", "9.9 µs", "10 µs", "999 µs", "1.0 ms", "12 ms", "2.5 s"]);
    }

    #[test]
    fn shares() {
        assert_eq!([0.117, 2.44, 133.2].map(significant), ["0.12", "2.4", "133"]);
        assert_eq!(megabytes(9_870_000), "9.9 MB");
    }
}
