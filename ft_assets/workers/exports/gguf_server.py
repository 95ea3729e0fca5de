"""llama.cpp's server in the wheel of ``xllamacpp``, run as a script of its own with options of ``llama-server``:
``gguf_server.py --model FILE --host SOCKET …``.
"""

import argparse
import threading


def main() -> None:
    import xllamacpp

    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--host", required=True)
    asked, _ = parser.parse_known_args()
    settings = xllamacpp.CommonParams()
    settings.model.path = asked.model
    settings.hostnames = [asked.host]
    settings.n_parallel = 1
    settings.use_jinja = True
    settings.ui = False
    settings.cache_type_k = settings.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
    settings.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    server = xllamacpp.Server(settings)
    print(f"listening at {server.listening_address}", flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()
