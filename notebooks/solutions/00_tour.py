# %% 00
answer = 10_800 + 930 * 48  # 25 680 - 16 * 930 does not depend on the tile

kb.check_answer("00", answer)
