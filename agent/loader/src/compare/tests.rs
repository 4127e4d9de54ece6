use rand::SeedableRng;

use super::*;

fn random() -> SmallRng {
    SmallRng::seed_from_u64(1)
}

#[test]
fn a_short_file_is_compared_whole() {
    for (data_start, size) in [
        (0, 1),
        (0, 4096),
        (100, 131_072),
        (8, 8),
        (5000, 9000),
        (0, 0),
    ] {
        let mut at = data_start;
        for block in blocks(data_start, size, &mut random()) {
            assert_eq!(block.start, at);
            at = block.end;
        }
        assert_eq!(at, size);
    }
}

#[test]
fn of_a_long_file_one_block_of_each_part_is_compared() {
    for (data_start, size) in [
        (0, 1 << 30),
        (4097, (1 << 30) + 17),
        (100, 300_000),
        (0, u64::MAX),
    ] {
        let compared: Vec<_> = blocks(data_start, size, &mut random()).collect();
        assert_eq!(compared.len() as u64, BLOCKS);
        let part = (size - data_start) / BLOCKS;
        for (block, nth) in compared.iter().zip(0u64..) {
            assert!(data_start <= block.start && block.start < block.end && block.end <= size);
            let about = data_start + nth * part;
            let slack = 2 * BLOCK_LEN;
            assert!(
                block.start + slack >= about && block.start <= about.saturating_add(part + slack)
            );
        }
    }
}

#[test]
fn places_are_others_each_time_and_reach_all_blocks() {
    let count = 3 * BLOCKS;
    let mut random = random();
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..200 {
        seen.extend(blocks(0, count * BLOCK_LEN, &mut random).map(|block| block.start));
    }
    assert_eq!(seen.len() as u64, count);
}
