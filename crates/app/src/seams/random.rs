//! Randomness.

use holdfast_core::ports::Random;
use rand::{TryRng, rngs::SysRng};

/// The operating system's generator.
#[derive(Clone, Copy, Debug)]
pub struct OsRandom;

impl Random for OsRandom {
    fn fill(&self, buffer: &mut [u8]) {
        SysRng.try_fill_bytes(buffer).expect("the operating system gives randomness; without it nothing here is safe");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_fills_differ() {
        let (mut one, mut other) = ([0; 32], [0; 32]);

        OsRandom.fill(&mut one);
        OsRandom.fill(&mut other);

        assert_ne!(one, other);
        assert!((0.0..1.0).contains(&OsRandom.unit()));
    }
}
