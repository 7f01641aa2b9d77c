//! Identity fingerprints: which fencing domain a proof is for. Protocol, "Connection".

/// Fingerprint of every server in single mode: SHA-256 of `ticketing/single/v3`.
pub const SINGLE_FINGERPRINT: [u8; 32] = [
    0xff, 0x4d, 0x46, 0x98, 0xae, 0x53, 0xed, 0xe3, 0x82, 0xf9, 0x68, 0x85, 0xda, 0xde, 0xba, 0x24,
    0x3d, 0x2d, 0x12, 0x4d, 0xed, 0x96, 0x7b, 0x33, 0x69, 0x08, 0xd0, 0x03, 0x99, 0xc8, 0x7b, 0x97,
];

#[cfg(test)]
mod tests {
    use super::*;
    use ring::digest::{SHA256, digest};

    #[test]
    fn the_single_fingerprint_is_the_hash_of_its_name() {
        assert_eq!(digest(&SHA256, b"ticketing/single/v3").as_ref(), SINGLE_FINGERPRINT);
    }
}
