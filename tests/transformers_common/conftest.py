def pytest_configure(config):
    """Make known the markers that transformers' tests carry; nothing here asks for them."""
    flash = [f"flash_attn_{version}test" for version in ("", "3_", "4_")]
    exports = [f"{kind}_export_test" for kind in ("torch", "onnx", "executorch")]
    for name in (*flash, *exports, "accelerate_tests", "torch_compile_test", "generate"):
        config.addinivalue_line("markers", f"{name}: transformers' own")
