tetris init >init.log
