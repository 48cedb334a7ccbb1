//! A sample of the images, left for others to open: `MQSTORE_IMAGES` names the folder for it.
//!
//! Each is a folder with the store as the crash left it and, as JSON, the options under RocketMQ's names and the
//! case that it is of. One in `MQSTORE_IMAGES_ONE_IN` is taken.

use std::path::{Path, PathBuf};

use mqstore_core::config::StoreConfig;

use crate::setting;
use crate::stores::copy_folder;

/// Which images are kept. It draws by itself: the images are those of a run that keeps none.
pub(crate) struct Sample {
    folder: Option<PathBuf>,
    one_in: usize,
    random: fastrand::Rng,
}

impl Sample {
    /// As the environment says, for a run of a case.
    pub(crate) fn new(seed: u64, case: &str) -> Self {
        let folder = std::env::var_os("MQSTORE_IMAGES").map(PathBuf::from);
        let one_in = setting("MQSTORE_IMAGES_ONE_IN", 100) as usize;
        let seed = case.bytes().fold(seed, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
        Self { folder, one_in, random: fastrand::Rng::with_seed(seed) }
    }

    /// Keeps an image, where it is its turn.
    pub(crate) fn take(&mut self, store: &Path, config: &StoreConfig, name: &str) {
        let Some(folder) = self.folder.as_ref().filter(|_| self.random.usize(..self.one_in) == 0) else {
            return;
        };
        let image = folder.join(format!("{:016x}", self.random.u64(..)));
        assert!(!image.exists(), "each image has a folder of its own");
        copy_folder(store, &image.join("store"));
        std::fs::write(image.join("image.json"), told(config, name)).unwrap();
    }
}

fn told(config: &StoreConfig, name: &str) -> String {
    let options = [
        ("mappedFileSizeCommitLog", config.mapped_file_size_commit_log),
        ("mappedFileSizeConsumeQueue", config.mapped_file_size_consume_queue),
        ("mappedFileSizeConsumeQueueExt", config.mapped_file_size_consume_queue_ext),
        ("maxHashSlotNum", config.index_shape.hash_slot_num.into()),
        ("maxIndexNum", config.index_shape.index_num.into()),
    ];
    let mut options: Vec<_> = options.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
    options.push(format!("\"enableConsumeQueueExt\":{}", config.enable_consume_queue_ext));
    let options = options.join(",");
    // A case's name ends with the kind of its stores.
    let case = name.split(',').next().unwrap();
    format!("{{\"case\":\"{case}\",\"options\":{{{options}}}}}")
}
