"""Files: networks that any machine can read and none has to trust, written whole or not at all."""
