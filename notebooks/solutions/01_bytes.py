# %% 01
answer = 19 * 64  # 2 (2 N + d) / (N + d) = 3.9 gives N = 19 d

kb.check_answer("01", answer)
