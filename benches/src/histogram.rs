//! Fixed-size log-linear histogram of nanoseconds: recording is one index and one increment.

/// Buckets per power of two, as a power of two: a bucket is at most 1/64 of its value wide.
const SUB_BITS: u32 = 6;
const SUB_COUNT: usize = 1 << SUB_BITS;
/// Values from here up share the last bucket: 2^41 ns are 36 minutes.
const EXPONENT_MAX: u32 = 40;
const BUCKET_COUNT: usize = (EXPONENT_MAX - SUB_BITS + 2) as usize * SUB_COUNT;

/// Counts of recorded durations.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: Box<[u64; BUCKET_COUNT]>,
    total: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: Box::new([0; BUCKET_COUNT]), total: 0 }
    }
}

impl Histogram {
    /// Adds one duration.
    pub fn record(&mut self, nanos: u64) {
        self.counts[bucket(nanos)] += 1;
        self.total += 1;
    }

    /// Number of durations recorded.
    pub fn count(&self) -> u64 {
        self.total
    }

    /// Forgets everything recorded.
    pub fn clear(&mut self) {
        self.counts.fill(0);
        self.total = 0;
    }

    /// The duration that `share` (0–1) of all records do not exceed, rounded up to its bucket's
    /// upper end so that it never flatters; `None` when nothing was recorded.
    pub fn quantile(&self, share: f64) -> Option<u64> {
        if self.total == 0 {
            return None;
        }
        let rank = ((share * self.total as f64).ceil() as u64).clamp(1, self.total);
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return Some(upper_end(index));
            }
        }
        None
    }
}

fn bucket(nanos: u64) -> usize {
    if nanos < SUB_COUNT as u64 {
        return nanos as usize;
    }
    let exponent = nanos.ilog2();
    if exponent > EXPONENT_MAX {
        return BUCKET_COUNT - 1;
    }
    let sub = (nanos >> (exponent - SUB_BITS)) as usize - SUB_COUNT;
    (exponent - SUB_BITS + 1) as usize * SUB_COUNT + sub
}

fn upper_end(index: usize) -> u64 {
    if index < SUB_COUNT {
        return index as u64;
    }
    let shift = (index / SUB_COUNT - 1) as u32;
    let sub = (index % SUB_COUNT + SUB_COUNT) as u64;
    ((sub + 1) << shift) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_lies_in_its_bucket() {
        for exponent in 0..=EXPONENT_MAX {
            for offset in [0, 1, 37] {
                let value = (1_u64 << exponent) + offset;
                let index = bucket(value);
                assert!(value <= upper_end(index), "{value} is above bucket {index}");
                assert!(index == 0 || value > upper_end(index - 1), "{value} below {index}");
            }
        }
    }

    #[test]
    fn quantiles_are_within_one_part_in_64() {
        let mut histogram = Histogram::default();
        for value in 1..=100_000 {
            histogram.record(value);
        }
        for (share, exact) in [(0.5, 50_000.0), (0.99, 99_000.0), (0.999, 99_900.0)] {
            let found = histogram.quantile(share).expect("records") as f64;
            assert!(found >= exact && found <= exact * (1.0 + 1.0 / 64.0), "{share}: {found}");
        }
    }

    #[test]
    fn edges() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantile(0.5), None);
        histogram.record(u64::MAX);
        assert_eq!(histogram.quantile(0.0), Some(upper_end(BUCKET_COUNT - 1)));
        histogram.clear();
        histogram.record(0);
        assert_eq!(histogram.quantile(1.0), Some(0));
        assert_eq!(histogram.count(), 1);
    }
}
