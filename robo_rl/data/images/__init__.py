"""Images of datasets and replay buffers: files, caches and augmentation."""
